//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestAllManagementDown(t *testing.T) {
	l := theLab(t)
	unseen := l.NewClient(t, memberName)
	before, err := l.serve(t.Context(), l.clients)
	if err != nil {
		t.Fatal(err)
	}
	tr := l.Start(t, Traffic{})
	writes := l.write(t, l.Mgmt...)
	tr.Go(2 * time.Second)
	tr.Fault()
	for _, h := range l.Mgmt {
		h.signal(t, syscall.SIGKILL)
	}
	acknowledged := writes.stop()
	tr.Go(5 * time.Second)
	during, err := l.serve(t.Context(), l.clients)
	if err != nil {
		t.Errorf("a name that the entries have seen: %v", err)
	}
	t.Logf("the slowest of %d connections to known names took %v before and %v without management", 2*len(l.clients), before, during)
	l.refusedUnseen(t, unseen)
	tr.Go(50 * time.Second)
	for _, h := range l.Mgmt {
		<-h.role.Done
		h.Start(t)
	}
	changes := l.changesWork(t)
	m := tr.Stop(t)
	nothingNoticed(t, m)
	if during > lookupLimit {
		t.Errorf("a connection to a known name took %v, as if it waited for a server", during)
	}
	l.stillThere(t, acknowledged)
	l.WaitFor(t, patience, "the unseen name is served", func() error { return unseen.Try(t.Context(), l.Entries[0]) })
	l.Record(t, "all mgmt servers down for a minute", m, changes, "from their start until a change was made")
}

func TestQuorumLost(t *testing.T) {
	l := theLab(t)
	unseen := l.newClients(t, 5)
	tr := l.Start(t, Traffic{})
	tr.Go(time.Second)
	tr.Fault()
	leader := l.Leader(t)
	down := []*Host{leader, l.other(leader)}
	for _, h := range down {
		h.Kill(t)
	}
	left := l.other(down...)
	tr.Go(3 * time.Second)
	l.refusesChanges(t, left)
	slowest, err := l.serve(t.Context(), unseen)
	if err != nil {
		t.Errorf("a name that no entry had seen, from the server that is left: %v", err)
	}
	t.Logf("names that no entry had seen were served by the server that is left within %v", slowest)
	tr.Go(5 * time.Second)
	for _, h := range down {
		h.Start(t)
	}
	changes := l.changesWork(t)
	m := tr.Stop(t)
	nothingNoticed(t, m)
	l.Record(t, "etcd without quorum (two of three killed)", m, changes, "from their start until a change was made")
}

// other is a management server that is none of these.
func (l *Lab) other(not ...*Host) *Host {
	for _, h := range l.Mgmt {
		if h != not[0] && h != not[len(not)-1] {
			return h
		}
	}
	return nil
}

// refusesChanges wants a server to refuse a change soon, and to say why.
func (l *Lab) refusesChanges(t *testing.T, h *Host) {
	t.Helper()
	begin := time.Now()
	_, err := callAt(t.Context(), l, h, admin.MemberAdd, admin.MemberAddRequest{Name: "Late"})
	t.Logf("%s refused a change after %v: %v (%s)", h.Name, time.Since(begin).Round(time.Millisecond), err, mesh.Hint(err))
	if !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("%s: a change without a quorum: %v; want unavailable", h.Name, err)
	}
	within(t, "the refusal", time.Since(begin), answerLimit)
}

func (l *Lab) refusedUnseen(t *testing.T, c *Client) {
	t.Helper()
	begin := time.Now()
	if err := c.Try(t.Context(), l.Entries[0]); err == nil {
		t.Error("a name that no entry had seen was served without management")
	}
	t.Logf("a name that no entry had seen was refused after %v", time.Since(begin))
	within(t, "the refusal", time.Since(begin), lookupLimit)
}

// writer makes changes, some fifty a second at each server.
type writer struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	acked  map[string]bool
}

func (l *Lab) write(t *testing.T, servers ...*Host) *writer {
	t.Helper()
	w := &writer{acked: map[string]bool{}}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(t.Context())
	t.Cleanup(func() { w.cancel(); w.wg.Wait() })
	for _, h := range servers {
		l.devices++
		run := l.devices
		w.wg.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				<-tick.C
				name := fmt.Sprintf("%s-%d-%d", h.Name, run, i)
				if _, err := callAt(ctx, l, h, admin.MemberAdd, admin.MemberAddRequest{Name: name}); err == nil {
					w.mu.Lock()
					w.acked[name] = true
					w.mu.Unlock()
				}
			}
		})
	}
	return w
}

// stop returns the members whose making was acknowledged.
func (w *writer) stop() map[string]bool {
	w.cancel()
	w.wg.Wait()
	return w.acked
}

// stillThere wants all of these members at every server.
func (l *Lab) stillThere(t *testing.T, acknowledged map[string]bool) {
	t.Helper()
	l.WaitFor(t, patience, "every server answers", func() error { return l.serversWell(t.Context()) })
	for _, h := range l.Mgmt {
		there := map[string]bool{}
		for page := (admin.Page{Limit: 500}); ; {
			list, err := callAt(t.Context(), l, h, admin.MemberList, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range list.Items {
				there[m.Name] = true
			}
			if page.After = list.Next; page.After == "" {
				break
			}
		}
		for name := range acknowledged {
			if !there[name] {
				t.Errorf("%s: member %s was acknowledged and is gone", h.Name, name)
			}
		}
		t.Logf("%s: all of %d changes that were acknowledged are there", h.Name, len(acknowledged))
	}
}
