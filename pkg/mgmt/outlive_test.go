package mgmt

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// until waits for a moment.
func until(t *testing.T, at time.Time) {
	t.Helper()
	select {
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	case <-time.After(time.Until(at)):
	}
}

// ends is when the last certificate of this server ends, of those it makes for
// itself.
func (m *member) ends(t *testing.T) time.Time {
	t.Helper()
	var last time.Time
	for _, c := range m.status(t).Certificates {
		if (c.What == certNode || c.What == "etcd") && c.Ends.After(last) {
			last = c.Ends
		}
	}
	if last.IsZero() {
		t.Fatal("no certificate is named")
	}
	return last
}

// Certificates of etcd and of the servers are renewed while the mesh works, and
// when all servers were off until every one of them had ended, they come back.
func TestThreeServersOutliveTheirCertificates(t *testing.T) {
	const life = 8 * time.Second // a third of it is time enough to renew on a busy machine
	x := newTrio(t, "a", "b", "c")
	x.fixedEtcd()
	for i := range x.confs {
		x.confs[i].Etcd.CertLife, x.confs[i].Founding.MgmtCertLife = life, life
	}
	ms := []*member{x.start(0), x.start(1), x.start(2)}
	x.whole(ms...)
	first := ms[0].ends(t)

	// Under load, beyond the end of what they had.
	adds := 0
	add := func() {
		t.Helper()
		cc, req := ms[adds%3].socket(t), admin.MemberAddRequest{Name: fmt.Sprint("member ", adds)}
		eventually(t, req.Name+" is added", func() bool {
			_, err := admin.MemberAdd.Call(t.Context(), cc, req)
			return err == nil || errors.Is(err, mesh.ErrExists)
		})
		adds++
	}
	for time.Now().Before(first.Add(life / 2)) {
		add()
		until(t, time.Now().Add(50*time.Millisecond))
	}
	for _, m := range ms {
		m.says(t, "certificates of etcd renewed")
		m.says(t, "own certificate renewed")
		if _, _, err := m.store(t).Members.List(t.Context()); err != nil { // by a new connection
			t.Errorf("%s: %v", m.Config.Name, err)
		}
	}
	// Who comes anew shakes hands with two that have run all the time.
	ms[2].stop(t)
	ms[2] = x.start(2)
	x.whole(ms...)
	add()
	for _, m := range ms[:2] {
		if strings.Contains(m.logs.String(), "etcd not ready") || strings.Contains(m.logs.String(), "certificates of etcd not renewed") {
			t.Errorf("%s had trouble", m.Config.Name)
		}
	}

	for _, m := range ms {
		m.end()
	}
	for _, m := range ms {
		m.stop(t)
	}
	until(t, time.Now().Add(life)) // the last may have been made a moment ago
	begin := time.Now()
	ms = []*member{x.start(0), x.start(1), x.start(2)}
	x.whole(ms...)
	t.Logf("%d changes; whole again %v after the start", adds, time.Since(begin))
	for range 3 {
		add()
	}
}

// enrolled is a new node of the role, by a token of this server.
func (m *member) enrolled(t *testing.T, role mesh.Role, req admin.TokenCreateRequest) *identity.Node {
	t.Helper()
	req.Role = role
	tok, err := mesh.ParseJoinToken(call(t, admin.TokenCreate, m.socket(t), req).Token)
	if err != nil {
		t.Fatal(err)
	}
	e, err := join(t, tok, role, newFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	return e.Node
}

// C-07: a revoked core renews at none of the three servers, also after all of
// them were restarted; another one does at each.
func TestARevokedCoreRenewsAtNoServerAfterARestart(t *testing.T) {
	x := newTrio(t, "a", "b", "c")
	ms := []*member{x.start(0), x.start(1), x.start(2)}
	x.whole(ms...)
	cc := ms[0].socket(t)
	who := call(t, admin.MemberAdd, cc, admin.MemberAddRequest{Name: "Ada"})
	cell := call(t, admin.CellAdd, cc, admin.CellAddRequest{Name: "north", Suffix: "n.example.net"})
	req := admin.TokenCreateRequest{Member: string(who.ID), Cell: string(cell.ID)}
	revoked, good := ms[0].enrolled(t, mesh.RoleCore, req), ms[1].enrolled(t, mesh.RoleCore, req)
	call(t, admin.CoreRevoke, cc, admin.RevokeRequest{Ref: revoked.Identity().ID})

	for _, m := range ms {
		m.end()
	}
	for i, m := range ms {
		m.stop(t)
		ms[i] = x.start(i)
	}
	x.whole(ms...)
	for _, m := range ms {
		eventually(t, m.Config.Name+" renews for a good core", func() bool {
			_, err := renew(t, as(t, m.Config.MeshListen, good), good.Identity())
			if err != nil && mesh.Kind(err) != mesh.ErrUnavailable {
				t.Fatal(err)
			}
			return err == nil
		})
		_, err := renew(t, as(t, m.Config.MeshListen, revoked), revoked.Identity())
		if err == nil {
			t.Errorf("%s renewed for a revoked core", m.Config.Name)
		} else if !errors.Is(err, mesh.ErrDenied) {
			t.Logf("%s refused by its handshake: %v", m.Config.Name, err)
		}
	}
}
