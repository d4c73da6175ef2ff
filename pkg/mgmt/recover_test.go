package mgmt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// TestASurvivorGoesOnAlone loses two of three servers, is killed at each rename,
// and meets one that comes back.
func TestASurvivorGoesOnAlone(t *testing.T) {
	x := newTrio(t, "a", "b", "c")
	x.fixedEtcd()
	a, b, c := x.start(0), x.start(1), x.start(2)
	x.whole(a, b, c)
	yes := func(context.Context, RecoveryPlan) error { return nil }
	recovery := &Recovery{Config: x.confs[0], Confirm: yes}
	if _, err := recovery.Run(t.Context()); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("while it runs: %v", err)
	}
	a.stop(t)
	if _, err := recovery.Run(t.Context()); !errors.Is(err, mesh.ErrConflict) || !strings.Contains(err.Error(), "answers") {
		t.Fatalf("while others run: %v", err)
	}
	b.end()
	c.end()
	<-b.done
	<-c.done

	var plan RecoveryPlan
	no := errors.New("no")
	recovery.Confirm = func(_ context.Context, p RecoveryPlan) error { plan = p; return no }
	if _, err := recovery.Run(t.Context()); !errors.Is(err, no) {
		t.Fatalf("not confirmed: %v", err)
	}
	if len(plan.Lost) != 2 || plan.Lost[0].Name != "b" || plan.Server.Name != "a" || plan.Revision == 0 || plan.Changed.IsZero() {
		t.Errorf("the plan is %+v", plan)
	}
	dir := x.confs[0].Dir
	if _, err := os.Stat(filepath.Join(dir, dirRecover)); !os.IsNotExist(err) {
		t.Errorf("a recovery that was not confirmed left something: %v", err)
	}

	recovery.Confirm = yes
	killed := errors.New("killed")
	dies := func(at string) func(string) error {
		return func(s string) error {
			if s == at {
				return killed
			}
			return nil
		}
	}
	recovery.step = dies("aside")
	aside, err := recovery.Run(t.Context())
	if !errors.Is(err, killed) {
		t.Fatalf("killed after the first rename: %v", err)
	}
	recovery.step = dies("placed")
	if again, err := recovery.Run(t.Context()); !errors.Is(err, killed) || again != aside {
		t.Fatalf("killed after the second rename: %q, %v", again, err)
	}
	a = x.start(0).serves(t) // serve finishes it
	for _, name := range []string{fileRecover, dirRecover} {
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is there still: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, aside, "member", "wal")); err != nil {
		t.Errorf("the data from before: %v", err)
	}
	checkAlone(t, a)

	b = x.start(1)
	<-b.done
	if !errors.Is(b.err, ErrSetup) || !strings.Contains(b.err.Error(), "removed") {
		t.Errorf("a lost server that came back: %v", b.err)
	}
	a.stop(t)
	if _, err := recovery.Run(t.Context()); !errors.Is(err, mesh.ErrConflict) || !strings.Contains(err.Error(), "only server") {
		t.Errorf("a second recovery: %v", err)
	}
}

func checkAlone(t *testing.T, a *member) {
	t.Helper()
	cc := a.socket(t)
	call(t, admin.MemberAdd, cc, admin.MemberAddRequest{Name: "Bob"})
	if n := a.status(t).Etcd.Members; n != 1 {
		t.Errorf("etcd has %d members", n)
	}
	for _, l := range call(t, admin.MgmtList, cc, admin.Page{}).Items {
		if want := l.Name != "a"; want != (l.State == mesh.ServerRemoved) {
			t.Errorf("%s is %v", l.Name, l.State)
		}
	}
	if got := call(t, admin.ConfigGet, cc, admin.None{}).MgmtAddresses; len(got) != 1 {
		t.Errorf("nodes learn of %v", got)
	}
	found := false
	for _, r := range call(t, admin.AuditList, cc, admin.AuditListRequest{}).Items {
		found = found || r.Action == "mesh.recover" && strings.HasPrefix(string(r.Actor), "local:")
	}
	if !found {
		t.Error("audit does not know of it")
	}
	if n := a.revocations(t); n != 2 {
		t.Errorf("%d revocations, want one for each lost server", n)
	}
	eventually(t, "the key of gossip is replaced", func() bool { return strings.Contains(a.logs.String(), "gossip key replaced") })
}

// revocations counts the nodes and servers that are refused. Intermediates are
// refused besides, as soon as nobody depends on them.
func (m *member) revocations(t *testing.T) int {
	t.Helper()
	all, _, err := m.store(t).Revocations.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range all {
		if r.Record.Node != "" {
			n++
		}
	}
	return n
}
