package alert

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestTheTableIsSound(t *testing.T) {
	names := map[string]bool{}
	for _, r := range Rules() {
		if names[r.Name] {
			t.Errorf("%s is there twice", r.Name)
		}
		names[r.Name] = true
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(r.Name) || r.What == "" || rank(r.Severity) < 0 {
			t.Errorf("%s: name, what is the case, or severity %q", r.Name, r.Severity)
		}
		if r.Lasts > Window-maxClear || r.Clear > maxClear {
			t.Errorf("%s: longer than events are looked at", r.Name)
		}
		if len(r.Raise) == 0 && (r.Lasts > 0 || len(r.End) > 0 || r.Least > 0) {
			t.Errorf("%s: about events, and none begins it", r.Name)
		}
		if len(r.Raise) > 0 && r.Lasts == 0 && len(r.End) == 0 {
			t.Errorf("%s: it never ends", r.Name)
		}
		if r.Advice == "" && len(r.Raise) == 0 {
			t.Errorf("%s: nobody says what to do", r.Name)
		}
	}
}

func TestSettingsOfRulesThatDoNotExist(t *testing.T) {
	if err := Check(mesh.AlertSettings{Rules: []mesh.AlertRuleSettings{{Rule: CoreLost}}, Mutes: []mesh.AlertMute{{Object: "core/a"}, {Rule: CellDown}}}); err != nil {
		t.Error(err)
	}
	for _, s := range []mesh.AlertSettings{
		{Rules: []mesh.AlertRuleSettings{{Rule: "core-lots"}}}, {Mutes: []mesh.AlertMute{{Rule: "core-lots"}}},
	} {
		if err := Check(s); !errors.Is(err, mesh.ErrInvalid) || !strings.Contains(mesh.Hint(err), CoreLost) {
			t.Errorf("%v, hint %q", err, mesh.Hint(err))
		}
	}
}

const rulesFile = "../../deploy/prometheus/meshctl-alerts.yaml"

// UPDATE=1 rewrites the file.
func TestTheFileForPrometheusIsTheTable(t *testing.T) {
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(rulesFile, []byte(Prometheus()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(rulesFile)
	if err != nil || string(have) != Prometheus() {
		t.Errorf("it differs (%v); UPDATE=1 go test ./pkg/alert", err)
	}
}

var metricName = regexp.MustCompile(`meshctl_[a-z_]+`)

// The file is YAML of the form that Prometheus reads, and names metrics that the
// program has.
func TestTheFileForPrometheusCanBeRead(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict([]byte(Prometheus()), &file); err != nil {
		t.Fatal(err)
	}
	have := registered(t)
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) != len(Rules())+2 {
		t.Fatalf("%d groups", len(file.Groups))
	}
	seen := map[string]bool{}
	for _, r := range file.Groups[0].Rules {
		if seen[r.Alert] || !regexp.MustCompile(`^Meshctl[A-Za-z]+$`).MatchString(r.Alert) || !regexp.MustCompile(`^\d+s$`).MatchString(r.For) || r.Annotations["summary"] == "" {
			t.Errorf("%+v", r)
		}
		seen[r.Alert] = true
		for _, m := range metricName.FindAllString(r.Expr, -1) {
			if !slices.Contains(have, m) {
				t.Errorf("%s is about %s, which no server has", r.Alert, m)
			}
		}
		if strings.Count(r.Expr, "(") != strings.Count(r.Expr, ")") || strings.Count(r.Expr, "{") != strings.Count(r.Expr, "}") {
			t.Errorf("%s: %s", r.Alert, r.Expr)
		}
	}
}

// registered are the names that management servers register.
func registered(t *testing.T) []string {
	var out []string
	for _, dir := range []string{"../mgmt", "../mgmt/*", "../chores"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(f, "_test.go") {
				out = append(out, metricName.FindAllString(string(src), -1)...)
			}
		}
	}
	return append(out, Metric) // registered by its constant
}

// The table of docs/alerts.md is the table; UPDATE=1 rewrites it.
func TestTheDocumentsHaveTheTable(t *testing.T) {
	const file, head = "../../docs/alerts.md", "| rule | severity | it fires when |\n|---|---|---|\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), head)
	_, after, ok2 := strings.Cut(rest, "\n\n")
	if !ok || !ok2 {
		t.Fatal("there is no table")
	}
	var rows []string
	for _, r := range Rules() {
		rows = append(rows, "| `"+r.Name+"` | "+string(r.Severity)+" | "+r.What+" |")
	}
	want := before + head + strings.Join(rows, "\n") + "\n\n" + after
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Error("it differs; UPDATE=1 go test ./pkg/alert")
	}
}
