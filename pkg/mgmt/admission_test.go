package mgmt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func (m *member) socket(t *testing.T) *grpc.ClientConn {
	t.Helper()
	cc, err := admin.DialSocket(m.Config.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// admit lets server i in by a token of at, under its configured name.
func (x *trio) admit(at *member, i int) *member {
	x.t.Helper()
	name := x.confs[i].Name
	cc := at.socket(x.t)
	added := call(x.t, admin.MgmtAdd, cc, admin.MgmtAddRequest{Name: name, Passphrase: passphrase})
	tok, err := mesh.ParseJoinToken(added.Token)
	if err != nil {
		x.t.Fatal(err)
	}
	m := x.start(i, func(s *Server) {
		s.Passphrase, s.BootstrapSecret = nil, nil
		s.Token = func(context.Context) (mesh.JoinToken, error) { return tok, nil }
	})
	m.says(x.t, "waits until its intermediate is signed")
	again := call(x.t, admin.MgmtAdd, cc, admin.MgmtAddRequest{Name: name, Passphrase: passphrase})
	if again.Token != "" {
		x.t.Error("a second token for a server that is on its way")
	}
	eventually(x.t, name+" is a member", func() bool {
		p, err := admin.MgmtSign.Call(x.t.Context(), cc, admin.MgmtSignRequest{Name: name, Passphrase: passphrase})
		if err != nil && !errors.Is(err, mesh.ErrUnavailable) {
			x.t.Fatal(err)
		}
		return err == nil && p.Waiting == ""
	})
	return m.serves(x.t)
}

func TestOneServerBecomesThreeAndOneIsReplaced(t *testing.T) {
	x := newTrio(t, "a", "b", "c", "d")
	for i := range x.confs {
		x.confs[i].BootstrapExpect, x.confs[i].Peers = 1, nil
	}
	a := x.start(0).serves(t)
	if s := a.status(t); s.HighlyAvailable || s.Availability != "one server" {
		t.Errorf("alone: %v %q", s.HighlyAvailable, s.Availability)
	}
	if _, err := admin.MgmtAdd.Call(t.Context(), a.socket(t), admin.MgmtAddRequest{Name: "b", Passphrase: "not the passphrase"}); !errors.Is(err, mesh.ErrDenied) {
		t.Errorf("a wrong passphrase: %v", err)
	}
	b := x.admit(a, 1)
	eventually(t, "two are not called highly available", func() bool {
		s := a.status(t)
		return !s.HighlyAvailable && strings.HasPrefix(s.Availability, "2 servers")
	})
	c := x.admit(b, 2) // by a server that is not the founder
	id := x.whole(a, b, c)

	// c is lost with its folder; with it away, none of the others may be removed.
	c.stop(t)
	eventually(t, "a notices", func() bool { return !a.status(t).HighlyAvailable })
	cc := a.socket(t)
	_, err := admin.MgmtRemove.Call(t.Context(), cc, admin.RevokeRequest{Ref: "b"})
	if !errors.Is(err, mesh.ErrConflict) || !strings.Contains(err.Error(), "too few servers") {
		t.Errorf("a removal that breaks the quorum: %v", err)
	}
	if _, err := admin.MgmtRemove.Call(t.Context(), cc, admin.RevokeRequest{Ref: "a"}); !errors.Is(err, mesh.ErrConflict) {
		t.Errorf("a server removed itself: %v", err)
	}
	a.remove(t, "c")
	d := x.admit(a, 3)
	if got := x.whole(a, b, d); got != id {
		t.Errorf("now %s, want %s", got, id)
	}
	// c comes back, is told, and stops.
	c = x.start(2)
	<-c.done
	if !errors.Is(c.err, ErrSetup) || !strings.Contains(c.err.Error(), "was removed from the mesh") {
		t.Errorf("the removed server's return: %v", c.err)
	}
	if _, err := os.Stat(filepath.Join(c.Config.Dir, fileServer)); err != nil {
		t.Errorf("its folder: %v", err)
	}
	// Leadership moves where it is told to, whoever is asked.
	for _, name := range []string{"b", "d", "a"} {
		eventually(t, name+" leads", func() bool { // unless a busy machine elects another at once
			if _, err := admin.MgmtMoveLeader.Call(t.Context(), cc, admin.Ref{Ref: name}); err != nil && !errors.Is(err, mesh.ErrUnavailable) && !errors.Is(err, mesh.ErrConflict) {
				t.Fatal(err)
			}
			for _, l := range a.status(t).Servers {
				if l.Leader {
					return l.Name == name
				}
			}
			return false
		})
	}
}
