//go:build faults

package faults

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// C-01. A join token that is presented to every server in the same instant makes
// one node, each time.
func TestOneTokenAtEveryServer(t *testing.T) {
	l := theLab(t)
	// Losers count as guessers of tokens, of whom each server admits a few a minute.
	const rounds, perAddress = 100, 5
	begin := time.Now()
	won := map[string]int{}
	from := l.Stranger.Addr
	for i := range rounds {
		token := must(t, l, admin.TokenCreate, admin.TokenCreateRequest{Role: mesh.RoleEntry, Name: fmt.Sprintf("race-%d", i)})
		if i%perAddress == 0 {
			from = subnetAddr(byte(100 + i/perAddress))
			l.Stranger.alsoAt(t, from)
		}
		winner := l.race(t, token, from)
		won[winner.Name]++
		used := must(t, l, admin.TokenGet, admin.Ref{Ref: string(token.ID)}).Used
		if used == nil || !strings.HasPrefix(used.From, from.String()) {
			t.Fatalf("round %d: the token's record says %+v", i, used)
		}
	}
	entries := 0
	for _, e := range must(t, l, admin.EntryList, admin.Page{Limit: 500}).Items {
		if strings.HasPrefix(e.Name, "race-") {
			entries++
			must(t, l, admin.EntryRevoke, admin.RevokeRequest{Ref: string(e.ID)})
			must(t, l, admin.EntryRemove, admin.Ref{Ref: string(e.ID)})
		}
	}
	if entries != rounds {
		t.Errorf("%d entries were made by %d tokens", entries, rounds)
	}
	t.Logf("%d rounds in %v; won at %v", rounds, time.Since(begin), won)
	l.Note("one join token at all three servers in the same instant, 100 times", "one node each time; the others are told that it is used")
}

// alsoAt gives the host one more address on the Internet.
func (h *Host) alsoAt(t *testing.T, addr netip.Addr) {
	t.Helper()
	if err := lab.Command("", "ip", "-n", string(h.ns), "address", "replace", addr.String()+"/24", "dev", "eth0"); err != nil {
		t.Fatal(err)
	}
}

// race presents the token to every server at once, each time with another key,
// and returns the server where it succeeded.
func (l *Lab) race(t *testing.T, token admin.TokenCreated, from netip.Addr) *Host {
	t.Helper()
	dial := func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		err = l.Stranger.ns.Do(func() error {
			conn, err = (&net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}).DialContext(ctx, network, addr)
			return err
		})
		return conn, err
	}
	errs := make([]error, len(l.Mgmt))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, h := range l.Mgmt {
		folder, err := identity.OpenFolder(filepath.Join(t.TempDir(), h.Name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := folder.NewRequest(); err != nil { // the key is there before
			t.Fatal(err)
		}
		join, err := mesh.ParseJoinToken(token.Token)
		if err != nil {
			t.Fatal(err)
		}
		join.Addresses = []string{h.At(8443)}
		wg.Go(func() {
			<-start
			_, errs[i] = control.Enroll(t.Context(), control.EnrollConfig{
				Token: join, Role: mesh.RoleEntry, Folder: folder, Log: slog.New(slog.DiscardHandler), Dial: dial,
			})
		})
	}
	close(start)
	wg.Wait()
	var winner *Host
	for i, err := range errs {
		switch {
		case err == nil && winner == nil:
			winner = l.Mgmt[i]
		case err == nil:
			t.Fatalf("both %s and %s enrolled somebody", winner.Name, l.Mgmt[i].Name)
		case !strings.Contains(err.Error(), "already used"):
			t.Errorf("at %s: %v", l.Mgmt[i].Name, err)
		}
	}
	if winner == nil {
		t.Fatal("nobody was enrolled")
	}
	return winner
}
