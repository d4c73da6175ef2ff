package backup_test

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
)

func TestABackupSaysWhatTheStateWas(t *testing.T) {
	w := newWorld(t)
	w.state.Objects = []backup.Object{
		object("devices", "device-aaaaaaaaaaaaaaaa", `{"schema":1,"minReader":1,"id":"device-aaaaaaaaaaaaaaaa","name":"phone","state":"active","limits":{"traffic":12,"new":true},"secret":"sealed:v1:x","later":{"x":[1,2.50,{}]}}`),
		object("members", "member-aaaaaaaaaaaaaaaa", `{"schema":1,"minReader":1,"id":"member-aaaaaaaaaaaaaaaa","name":"Alicia"}`),
		object("config", "mesh", `{"schema":1,"minReader":1,"epoch":1}`),
	}
	w.did(w.now, "member.create", "member/member-aaaaaaaaaaaaaaaa")
	tree := make(backup.Files)
	sum, _ := w.draft(tree)
	for _, p := range paths(tree) {
		t.Logf("%s", p)
	}
	t.Logf("%s\n%s", sum.Message(), tree["manifest.yaml"])
	out := w.read(tree)
	sameState(t, w.state, out)
	if len(out.Audit) != 1 {
		t.Errorf("%d audit records", len(out.Audit))
	}
	if sum, _ := w.draft(tree); sum.Changed {
		t.Errorf("drafted anew: %+v", sum)
	}
	w.did(w.now.Add(24*time.Hour), "member.create", "member/member-aaaaaaaaaaaaaaaa")
	w.draft(tree)
	if out := w.read(tree); len(out.Audit) != 2 {
		t.Errorf("%d audit records", len(out.Audit))
	}
}
