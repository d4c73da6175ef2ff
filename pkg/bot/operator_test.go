package bot

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/bot/texts"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestOnlyOperatorsOperate(t *testing.T) {
	r := operatorRoutes()
	for _, c := range r.Commands {
		if c.Need != mesh.BotOperator {
			t.Errorf("/%s needs %s", c.Name, c.Need)
		}
		for lang, say := range texts.Load() {
			if !say.Has("command." + c.Name) {
				t.Errorf("%s: /%s has no description", lang, c.Name)
			}
		}
	}
	for _, a := range r.Actions {
		if a.Need != mesh.BotOperator {
			t.Errorf("the action %s needs %s", a.Name, a.Need)
		}
	}
	for _, a := range r.Answers {
		if a.Need != mesh.BotOperator {
			t.Errorf("the answer %s needs %s", a.Question, a.Need)
		}
	}
}

// TestEveryMethodIsOpenToTheBot: what a screen calls and the server would refuse.
func TestEveryMethodIsOpenToTheBot(t *testing.T) {
	called := regexp.MustCompile(`admin\.([A-Z][A-Za-z]+), (?:admin\.|req|whole|func)`)
	for name, source := range operatorSources(t) {
		for _, m := range called.FindAllStringSubmatch(source, -1) {
			if _, ok := admin.BotTable()["/"+admin.Service+"/"+m[1]]; !ok {
				t.Errorf("%s: %s is not open to the bot", name, m[1])
			}
		}
	}
}

func operatorSources(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("operator*.go")
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, "home.go", "notice.go") // which lead to them
	out := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(data)
	}
	return out
}

// TestTextsOfOperatorsAreThereAndUsed: a key that is written out has a text, and of
// each text the key, or its end, is written somewhere.
func TestTextsOfOperatorsAreThereAndUsed(t *testing.T) {
	say := texts.Load().For("en")
	used := map[string]bool{}
	for name, source := range operatorSources(t) {
		for _, m := range regexp.MustCompile(`"([a-z][A-Za-z.-]*)"`).FindAllStringSubmatch(source, -1) {
			used[m[1]] = true
			if key := m[1]; strings.HasPrefix(key, "op.") && !strings.HasSuffix(key, ".") && !strings.HasSuffix(key, "-") && !say.Has(key) && !say.Has(key+".members") {
				t.Errorf("%s: there is no text %s", name, key)
			}
		}
	}
	for _, key := range say.Keys() {
		end := key[strings.LastIndex(key, ".")+1:]
		// States and the like come from values.
		values := []string{"op.state.", "op.standing.", "op.token.role.", "op.usage.", "op.mark.", "op.device.limits-button."}
		if !strings.HasPrefix(key, "op.") || used[key] || used[end] || slices.ContainsFunc(values, func(p string) bool { return strings.HasPrefix(key, p) }) {
			continue
		}
		if prefix, kind, ok := strings.Cut(key, "-"); ok && used[prefix+"-"] && slices.Contains([]limit{limitTraffic, limitExpires, limitConnections}, limit(kind)) {
			continue
		}
		if to, ok := strings.CutPrefix(key, "op.cell.forecast."); ok && slices.Contains([]mesh.CellState{mesh.CellActive, mesh.CellCompromised}, mesh.CellState(to)) {
			continue
		}
		t.Errorf("nobody says %s", key)
	}
}

func TestLinesAreTakenApart(t *testing.T) {
	for line, want := range map[string][]string{
		"":                    nil,
		"  ":                  nil,
		"drain core1":         {"drain", "core1"},
		" a\t b\nc ":          {"a", "b", "c"},
		`limit "Bob Smith" 3`: {"limit", "Bob Smith", "3"},
		`“Bob Smith” «Анна Б» „x y“ 'z'`: {"Bob Smith", "Анна Б", "x y", "z"},
		`O'Brien "half`: {"O'Brien", `"half`},
		`"" a`:          {`""`, "a"},
		`"a"b c"`:       {`a"b c`},
	} {
		if got := splitWords(line); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func FuzzSplitWords(f *testing.F) {
	f.Add(`limit "Bob Smith" 3`)
	f.Add("“a «b» \xff 'c\u2028")
	f.Fuzz(func(t *testing.T, line string) {
		for _, w := range splitWords(line) {
			if w == "" {
				t.Errorf("%q has an empty word", line)
			}
		}
		if strings.TrimSpace(line) != "" && len(splitWords(line)) == 0 {
			t.Errorf("%q has no word", line)
		}
	})
}

func TestPagesHoldAllOnce(t *testing.T) {
	s := &Session{T: texts.Load().For("en")}
	for _, count := range []int{0, 1, pageSize, pageSize + 1, 3 * pageSize} {
		seen, page := 0, "0"
		for page != "" {
			p := s.paged(page, count, "list", "x")
			from, to := p.span()
			if from != seen {
				t.Fatalf("of %d, page %s begins at %d, want %d", count, page, from, seen)
			}
			seen, page = to, ""
			for _, row := range p.rows(func(int) Button { return Button{Action: "show"} }) {
				for _, b := range row {
					if b.Action == "list" && b.Label == s.T.Plain("button.next") {
						page = b.Args[1]
					}
				}
			}
		}
		if seen != count {
			t.Errorf("of %d, %d are on pages", count, seen)
		}
	}
	for _, wrong := range []string{"", "-1", "9999", "x"} {
		if p := s.paged(wrong, 20, "list"); p.page != 0 {
			t.Errorf("page %q is %d", wrong, p.page)
		}
	}
}

// TestButtonsHaveRoom writes the largest data that there is.
func TestButtonsHaveRoom(t *testing.T) {
	sign := signer{key: []byte("key")}
	member, cell, core, device := string(mesh.NewMemberID()), string(mesh.NewCellID()), string(mesh.NewCoreID()), string(mesh.NewDeviceID())
	ids := []string{"bot-token-used-elsewhere", "mgmt-lost", "x"}
	for _, p := range []press{
		{actTokenMake, []string{"10m", member, cell}, true},
		{actTokenCell, []string{member, "999"}, false},
		{actDevicePut, []string{device, core}, true},
		{actDeviceMoveTo, []string{device, cell, "999"}, false},
		{actLimitSet, []string{device, limitTraffic.short(), limitTraffic.none()}, true},
		{actMemberState, []string{member, string(mesh.MemberSuspended)}, true},
		{actBroadcastSend, []string{digest("x")}, true},
		{actAlertMute, []string{alertRef(alert.ID(ids[0], "x")), "3d"}, true},
		{actAlert, []string{alertRef(alert.ID(ids[1], "x"))}, false},
		{actAlertAck, []string{alertRef(alert.ID(ids[2], "x"))}, true},
	} {
		data, err := sign.write(1<<40, 1<<40, p, time.Now())
		if err != nil || len(data) > 64 {
			t.Errorf("%s: %d bytes, %v", p.action, len(data), err)
		}
	}
}

func TestLimitsAreReadAsPeopleWriteThem(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, kind := range []limit{limitTraffic, limitExpires, limitConnections} {
		if limitOf(kind.short()) != kind {
			t.Errorf("%s is not known by %s", kind, kind.short())
		}
		for _, text := range append(kind.offers(), kind.none()) {
			if _, ok := kind.set(admin.DeviceSetRequest{}, text, now); !ok {
				t.Errorf("%s: the offer %s is refused", kind, text)
			}
		}
		for _, text := range []string{"", "-1", "<b>", "1e99", strings.Repeat("9", 500)} {
			if _, ok := kind.set(admin.DeviceSetRequest{}, text, now); ok {
				t.Errorf("%s: %q is taken", kind, text)
			}
		}
	}
	if limit("colour").none() != "" {
		t.Error("there is a limit of colour")
	}
}
