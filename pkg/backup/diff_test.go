package backup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/backup"
)

func lines(ds []backup.Difference) []string {
	var out []string
	for _, d := range ds {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %q", d.What, d.Kind, d.ID, d.Name)))
		for _, m := range d.Members {
			if m.Secret {
				out = append(out, "  "+m.Member+" changed"+m.Before+m.After)
			} else {
				out = append(out, fmt.Sprintf("  %s: %q -> %q", m.Member, m.Before, m.After))
			}
		}
	}
	return out
}

func TestDiffReadsLikeAListOfChanges(t *testing.T) {
	state := func(objects ...backup.Object) *backup.State { return &backup.State{Objects: objects} }
	const a, b = `{"schema":1,"minReader":1,"id":"device-a","name":"phone","state":"active","secret":"sealed:v1:canary","limits":{"traffic":5,"later":1},"labels":[{"label":"x"}],"later":{"canary":1}}`,
		`{"minReader":1,"schema":2,"id":"device-a","name":"phone 2","state":"suspended","secret":"sealed:v1:canary2","limits":{"traffic":6.0,"later":2,"connections":1},"labels":[{"label":"y"}],"later":{"canary":2}}`
	for name, c := range map[string]struct {
		before, after *backup.State
		want          []string
	}{
		"the same":                  {state(object("devices", "device-a", a)), state(object("devices", "device-a", a)), nil},
		"the same in another order": {state(object("devices", "a", `{"a":1,"b":[1.0]}`)), state(object("devices", "a", `{ "b": [1.0], "a": 1 }`)), nil},
		"a changed object": {state(object("devices", "device-a", a)), state(object("devices", "device-a", b)), []string{
			`changed device device-a "phone 2"`,
			`  labels: "[{\"label\":\"x\"}]" -> "[{\"label\":\"y\"}]"`,
			`  later changed`,
			`  limits.connections: "" -> "1"`,
			`  limits.later changed`,
			`  limits.traffic: "5" -> "6.0"`,
			`  name: "phone" -> "phone 2"`,
			`  secret changed`,
			`  state: "active" -> "suspended"`,
		}},
		"one more, and one less": {state(object("members", "member-a", `{"id":"member-a","name":"Al"}`)), state(object("cells", "cell-b", `{"id":"cell-b","state":"active"}`)), []string{
			`created cell cell-b ""`,
			`  id: "" -> "cell-b"`,
			`  state: "" -> "active"`,
			`removed member member-a "Al"`,
			`  id: "member-a" -> ""`,
			`  name: "Al" -> ""`,
		}},
		"a sealed value inside what may be seen": {
			state(object("backup", "settings", `{"remotes":[{"name":"x","credential":"sealed:v1:canary"}]}`)),
			state(object("backup", "settings", `{"remotes":[{"name":"y","credential":"sealed:v1:canary"}]}`)), []string{
				`changed backup settings settings ""`,
				`  remotes: "[{\"credential\":\"[redacted]\",\"name\":\"x\"}]" -> "[{\"credential\":\"[redacted]\",\"name\":\"y\"}]"`,
			}},
		"a folder of a later version": {state(object("bots", "a", `{"token":"canary"}`)), state(object("bots", "a", `{"token":"canary2"}`)), []string{`changed bots a ""`, `  token changed`}},
		"a known object became text":  {state(object("devices", "a", `{"limits":{"traffic":1}}`)), state(object("devices", "a", `{"limits":"canary"}`)), []string{`changed device a ""`, `  limits changed`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := lines(backup.Diff(c.before, c.after))
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if strings.Contains(strings.Join(got, ""), "canary") {
				t.Error("it shows a secret")
			}
		})
	}
}

func TestDiffOfKeysAndRecipients(t *testing.T) {
	a := &backup.State{Keys: backup.Keys{Data: [][32]byte{{1}}}, Recipients: []backup.Recipient{{Name: "alice", Key: "age1a"}}}
	b := &backup.State{Keys: backup.Keys{Data: [][32]byte{{2}}}, Recipients: []backup.Recipient{{Name: "alice", Key: "age1a"}, {Name: "bob", Key: "age1b"}}}
	want := []string{`changed keys  ""`, `  keys changed`, `changed recipients  ""`, `  recipients: "alice age1a" -> "alice age1a, bob age1b"`}
	if got := lines(backup.Diff(a, b)); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := lines(backup.Diff(a, a)); got != nil {
		t.Errorf("got %q", got)
	}
}
