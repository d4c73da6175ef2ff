//go:build faults

package faults

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/internal/lab"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// patience is how long a mesh on a busy machine may take to be well again.
const patience = 90 * time.Second

// Lab is the shared mesh.
type Lab struct {
	Dir                      string
	Mgmt, Entries, Cores     []*Host
	Client, Origin, Stranger *Host
	// Neighbour is on the servers' private network too, and is none of them.
	Neighbour *Host
	// Passphrase is the file with the root passphrase.
	Passphrase string

	binary  string
	admins  map[*Host]*grpc.ClientConn
	echo    *lab.Origin
	clients []*Client
	devices int // made so far, for names
	rows    []Row
	notes   []note
}

func (l *Lab) roles() []*Host { return slices.Concat(l.Mgmt, l.Entries, l.Cores) }

func (l *Lab) hosts() []*Host { return append(l.roles(), l.Client, l.Origin, l.Stranger, l.Neighbour) }

// Cut makes hosts unreachable, and the others unreachable for them: what they
// send is dropped without an answer. Unix sockets on them still work.
func (l *Lab) Cut(t testing.TB, hosts ...*Host) {
	t.Helper()
	for _, h := range hosts {
		for _, addr := range h.addrs() {
			l.nft(t, "add element bridge lab hosts { "+addr.String()+" }")
		}
	}
}

// CutBetween makes every host of one side unreachable for every host of the
// other, both ways.
func (l *Lab) CutBetween(t testing.TB, one, other []*Host) {
	t.Helper()
	for _, h := range one {
		for _, o := range other {
			l.cutPair(t, h.Addr, o.Addr)
			if h.Private.IsValid() && o.Private.IsValid() {
				l.cutPair(t, h.Private, o.Private)
			}
		}
	}
}

func (l *Lab) cutPair(t testing.TB, a, b netip.Addr) {
	t.Helper()
	l.nft(t, fmt.Sprintf("add element bridge lab pairs { %s . %s, %s . %s }", a, b, b, a))
}

// Heal takes every cut back.
func (l *Lab) Heal(t testing.TB) {
	t.Helper()
	l.nft(t, "flush set bridge lab hosts; flush set bridge lab pairs")
}

func (l *Lab) nft(t testing.TB, text string) {
	t.Helper()
	if err := internet.Feed(text, "nft", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// Readdress gives a host another address on its Internet. Connections that hang
// on the old one are left hanging.
func (l *Lab) Readdress(t testing.TB, h *Host, addr netip.Addr) {
	t.Helper()
	// The old one first: the kernel takes the others of a subnet away with its first.
	for _, change := range [][]string{{"delete", h.Addr.String()}, {"add", addr.String()}} {
		if err := lab.Command("", "ip", "-n", string(h.ns), "address", change[0], change[1]+"/24", "dev", "eth0"); err != nil {
			t.Fatal(err)
		}
	}
	h.Addr = addr
}

// Admin is a connection to the unix socket of one management server.
func (l *Lab) Admin(h *Host) *grpc.ClientConn { return l.admins[h] }

// Leader is the management server that leads etcd.
func (l *Lab) Leader(t testing.TB) *Host {
	t.Helper()
	var leader *Host
	l.WaitFor(t, patience, "a leader", func() error {
		servers, err := call(t.Context(), l, admin.MgmtList, admin.Page{})
		if err != nil {
			return err
		}
		for _, s := range servers.Items {
			if s.Leader {
				leader = l.Host(s.Name)
				return nil
			}
		}
		return fmt.Errorf("none of %d servers leads", len(servers.Items))
	})
	return leader
}

// Follower is a management server that does not lead.
func (l *Lab) Follower(t testing.TB) *Host {
	t.Helper()
	leader := l.Leader(t)
	return l.Mgmt[slices.IndexFunc(l.Mgmt, func(h *Host) bool { return h != leader })]
}

// Host finds a host by name; nil when there is none.
func (l *Lab) Host(name string) *Host {
	for _, h := range l.hosts() {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// WaitFor polls until try returns nil, and returns how long that took. It fails
// the test when that is more than limit.
func (l *Lab) WaitFor(t testing.TB, limit time.Duration, what string, try func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		took := time.Since(begin)
		if err == nil {
			return took
		}
		if took > limit {
			t.Fatalf("%s: not within %v: %v\n%s", what, limit, err, l.tails())
		}
		<-tick.C
	}
}

// call asks the first management server that runs, is not frozen and answers.
func call[Req, Resp any](ctx context.Context, l *Lab, method admin.Method[Req, Resp], req Req) (resp Resp, err error) {
	err = mesh.ErrUnavailable
	for _, h := range l.Mgmt {
		if !h.Running() || h.frozen {
			continue
		}
		if resp, err = callAt(ctx, l, h, method, req); err == nil {
			return resp, nil
		}
	}
	return resp, err
}

// callAt asks one management server, for at most ten seconds.
func callAt[Req, Resp any](ctx context.Context, l *Lab, h *Host, method admin.Method[Req, Resp], req Req) (Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cc := l.Admin(h)
	cc.ResetConnectBackoff()
	return method.Call(ctx, cc, req)
}

// must is call with an error that ends the test.
func must[Req, Resp any](t testing.TB, l *Lab, method admin.Method[Req, Resp], req Req) Resp {
	t.Helper()
	resp, err := call(t.Context(), l, method, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// restore mends everything a test broke and waits until the mesh is well.
func (l *Lab) restore(t testing.TB) {
	t.Helper()
	if t.Failed() {
		t.Log(l.tails())
	}
	l.Heal(t)
	for _, h := range l.roles() {
		switch {
		case !h.Running():
			h.frozen = false
			h.Start(t)
		case h.frozen:
			h.Thaw(t)
		}
	}
	l.WaitUntilWell(t)
}

func (l *Lab) tails() string {
	var b strings.Builder
	for _, h := range l.roles() {
		b.WriteString(h.role.Tail(6) + "\n")
	}
	return b.String() + "logs: " + filepath.Join(l.Dir, "*", "log")
}
