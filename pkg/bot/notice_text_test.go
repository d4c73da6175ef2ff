package bot

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/bot/texts"
	"github.com/meshctl/meshctl/pkg/mesh"
)

var noticed = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// hostileName is what somebody may call himself.
const hostileName = `<b>_*[x](tg://user?id=1)` + "\u202e" + `"&ok`

func notices() []mesh.Notice {
	core := mesh.Alert{
		ID: "core-lost.1", Rule: "core-lost", Severity: mesh.Critical, Object: "core/core-abcdefghijklmnop",
		Cause: "no phone-home since 2026-11-30T11:58:00Z", Advice: "look at the core's machine",
		State: mesh.AlertFiring, Since: noticed.Add(-2 * time.Minute), Changed: noticed,
	}
	again := core
	again.Severity, again.Since, again.Times = mesh.Warning, noticed.Add(-5*time.Hour), 3
	unknown := mesh.Alert{Rule: "of-a-newer-server", Severity: "grave", Object: "<mesh>", Since: noticed}
	over := core
	over.State, over.Changed = mesh.AlertResolved, noticed.Add(3*time.Hour)
	p := func(kv ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	return []mesh.Notice{
		{Kind: mesh.NoticeAlert, Alert: &core},
		{Kind: mesh.NoticeAlert, Alert: &core, Params: p("name", "oslo <1>")},
		{Kind: mesh.NoticeAlert, Alert: &again},
		{Kind: mesh.NoticeAlert, Alert: &core, Params: p("more", "41")},
		{Kind: mesh.NoticeAlert, Alert: &unknown},
		{Kind: mesh.NoticeResolved, Alert: &over},
		{Kind: mesh.NoticeEvent, Event: &mesh.Event{Type: mesh.EventCoreJoined}},
		{Kind: mesh.NoticeTest},
		{Kind: mesh.NoticeTokenUsed, Params: p("token", "token-abcdefghijklmnop", "role", "core", "node", "core/core-abcdefghijklmnop", "name", hostileName, "address", "192.0.2.7:4711")},
		{Kind: mesh.NoticeTokenOver, Params: p("token", "token-abcdefghijklmnop", "role", "entry", "name", "", "state", "expired")},
		{Kind: mesh.NoticeTokenOver, Params: p("token", "token-abcdefghijklmnop", "role", "core", "name", "core1", "state", "revoked")},
		{Kind: mesh.NoticeGuest, Params: p("user", "tg-abcdefghijklmnop", "name", hostileName, "text", "Hello,\n<i>let me</i> in")},
		{Kind: mesh.NoticeApproved, Params: p("member", "Bob")},
		{Kind: mesh.NoticeDeclined},
		{Kind: mesh.NoticeHelp, Params: p("user", "4711", "name", hostileName, "member", "Alice", "text", "It is <slow> & bad")},
		{Kind: mesh.NoticeAnswer, Params: p("text", "Try </blockquote> again")},
		{Kind: mesh.NoticeBroadcast, Params: p("text", "Tonight\nwe update.")},
		{Kind: mesh.NoticeLinked, Params: p("name", hostileName, "kind", "admin")},
		{Kind: mesh.NoticeLinked, Params: p("name", "Alice", "kind", "member")},
		{Kind: mesh.NoticeCoreLost, Params: p("core", "core1")},
		{Kind: mesh.NoticeCoreBack, Params: p("core", "core1")},
		{Kind: mesh.NoticeCoreNew, Params: p("core", "core1", "version", "v1.2.3")},
		{Kind: mesh.NoticeCoreCert, Params: p("core", "core1", "until", "2026-12-02T10:00:00Z")},
		{Kind: mesh.NoticeExpiring, Params: p("device", "phone", "until", "2026-12-02T10:00:00Z")},
		{Kind: mesh.NoticeSpent, Params: p("device", "phone")},
		{Kind: mesh.NoticeCellMoved, Params: p("cell", "amsterdam", "state", "compromised")},
		{Kind: mesh.NoticeCellMoved, Params: p("cell", "amsterdam", "state", "restored")},
		{Kind: mesh.NoticeCellMoved, Params: p("cell", "amsterdam", "state", "retired")},
		{Kind: mesh.NoticeCellMoved, Params: p("cell", "amsterdam", "state", "sold")},
		{Kind: "of-a-newer-server", Params: p("x", "y")},
	}
}

// TestNoticesAreAsTheyWere renders every kind of notice in both languages.
func TestNoticesAreAsTheyWere(t *testing.T) {
	for lang, said := range texts.Load() {
		var b strings.Builder
		for _, n := range notices() {
			n.Created = noticed
			text := noticeText(said, n)
			fmt.Fprintf(&b, "== %s\n%s\n", n.Kind, text)
			if strings.Contains(text, "{") || strings.Contains(text, "notice.") {
				t.Errorf("%s: %s is not all said:\n%s", lang, n.Kind, text)
			}
			if strings.Contains(text, "<b>_*") || strings.Contains(text, "\u202e") {
				t.Errorf("%s: %s is not escaped:\n%s", lang, n.Kind, text)
			}
		}
		SameAs(t, filepath.Join("testdata", "golden", lang, "notices.txt"), b.String())
	}
}

func TestEveryKindOfNoticeIsSaid(t *testing.T) {
	said := map[string]bool{}
	for _, n := range notices() {
		said[string(n.Kind)] = true
	}
	for _, kind := range constants(t, "../mesh/notice.go", "NoticeKind") {
		if !said[kind] {
			t.Errorf("no notice of the kind %s is looked at", kind)
		}
	}
}

// constants are the values of all constants of a type in a file.
func constants(t *testing.T, file, typ string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if id, ok := v.Type.(*ast.Ident); ok && id.Name == typ {
				for _, value := range v.Values {
					s, err := strconv.Unquote(value.(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, s)
				}
			}
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("%s has no constant of the type %s", file, typ)
	}
	return out
}
