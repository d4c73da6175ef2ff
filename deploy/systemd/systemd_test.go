package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var roles = []string{"mgmt", "core", "entry"}

// analyze runs systemd-analyze; MESHCTL_TEST_NOSKIP=1 demands that it is there.
func analyze(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("MESHCTL_TEST_NOSKIP") == "1" {
			t.Fatal("systemd-analyze is missing: install the package systemd")
		}
		t.Skip("systemd-analyze is missing: install the package systemd")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_LOG_TARGET=console", "SYSTEMD_COLORS=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// newer are keys that an older systemd ignores with a warning.
var newer = []string{"'RestartSteps'", "'RestartMaxDelaySec'"}

func TestSystemdTakesTheUnits(t *testing.T) {
	for _, role := range roles {
		t.Run(role, func(t *testing.T) {
			file := unitWith(t, role, "/bin/true")
			out, err := analyze(t, "verify", "--man=no", file)
			for line := range strings.Lines(out) {
				if !containsAny(line, newer) && strings.Contains(line, "meshctl-") {
					t.Error(strings.TrimSpace(line))
				}
			}
			if err != nil && !containsAny(out, newer) {
				t.Errorf("verify: %v\n%s", err, out)
			}
		})
	}
}

// rated is the systemd whose scores docs/systemd.md has; others weigh
// differently, and must only agree that it is little.
const rated = "252"

// TestExposureIsWhatTheDocumentsSay keeps the score in docs/systemd.md true.
func TestExposureIsWhatTheDocumentsSay(t *testing.T) {
	doc, err := os.ReadFile("../../docs/systemd.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		t.Run(role, func(t *testing.T) {
			out, err := analyze(t, "security", "--offline=true", "--no-pager", unitWith(t, role, packaged))
			if err != nil {
				t.Fatalf("security: %v\n%s", err, out)
			}
			_, rest, ok := strings.Cut(out, "Overall exposure level for "+UnitName(role)+": ")
			score, _, _ := strings.Cut(rest, " ")
			if x, err := strconv.ParseFloat(score, 64); !ok || err != nil || x > 2 {
				t.Errorf("exposure %q (%v), want at most 2", score, err)
			}
			version, err := analyze(t, "--version")
			if err != nil {
				t.Fatal(err)
			}
			row := fmt.Sprintf("| `%s` | %s |", UnitName(role), score)
			if strings.HasPrefix(version, "systemd "+rated+" ") && !strings.Contains(string(doc), row) {
				t.Errorf("docs/systemd.md lacks the row %q", row)
			}
		})
	}
}

// TestTheChildsLimitsMayBeSet looks that what a management server sets its
// child's limits with is in none of the groups that its unit denies.
func TestTheChildsLimitsMayBeSet(t *testing.T) {
	text, err := Unit("mgmt", packaged)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nSystemCallFilter=~")
	denied, _, _ := strings.Cut(rest, "\n")
	if !strings.Contains(string(text), "\nKillMode=mixed\n") || denied == "" {
		t.Errorf("denied: %q", denied)
	}
	out, err := analyze(t, append([]string{"syscall-filter"}, strings.Fields(denied)...)...)
	if err != nil || !strings.Contains(out, "setrlimit") {
		t.Fatalf("%v: %s", err, out)
	}
	if strings.Contains(out, "prlimit64") {
		t.Error("the unit denies prlimit64")
	}
}

func unitWith(t *testing.T, role, binary string) string {
	t.Helper()
	text, err := Unit(role, binary)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), UnitName(role))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

func TestUnitsKeepWhatTheDocumentsPromise(t *testing.T) {
	for _, role := range roles {
		t.Run(role, func(t *testing.T) {
			text, err := Unit(role, "/opt/bin/meshctl")
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range []string{
				"Type=notify", "Restart=on-failure", "RestartPreventExitStatus=78", "RestartMaxDelaySec=60s", "StartLimitIntervalSec=0",
				"User=" + UserName(role), "StateDirectory=meshctl/" + role, "StateDirectoryMode=0700", "NoNewPrivileges=yes", "ProtectSystem=strict",
			} {
				if !strings.Contains(string(text), "\n"+line+"\n") {
					t.Errorf("the unit lacks %q", line)
				}
			}
			if !strings.Contains(string(text), "\nExecStart=/opt/bin/meshctl "+role+" ") {
				t.Error("the unit does not start the binary it is made for")
			}
			if got, want := strings.Contains(string(text), "AmbientCapabilities=CAP_NET_BIND_SERVICE"), role == "entry"; got != want {
				t.Errorf("it may bind low ports: %v, want %v", got, want)
			}
		})
	}
}

func TestUnknownRoleHasNoUnit(t *testing.T) {
	if _, err := Unit("bot", packaged); err == nil {
		t.Error("there is a unit")
	}
}
