//go:build faults

package faults

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
)

// slack is what a deadline of a promise is multiplied with here, where a whole
// mesh shares a few cores.
const slack = 5

// Promises, without slack.
const (
	lookupLimit   = 600 * time.Millisecond // for a lookup that has to ask a second server
	electionLimit = 2 * time.Second        // until a change is made under another leader
	revokeLimit   = 2 * time.Second
	answerLimit   = 5 * time.Second // for a refusal in words
)

// nothingNoticed wants no client to have seen a failure.
func nothingNoticed(t *testing.T, m Measured) {
	t.Helper()
	if m.FailedNew != 0 || m.LostOpen != 0 {
		t.Errorf("%d new connections failed and %d open ones were lost; want none", m.FailedNew, m.LostOpen)
	}
}

// within wants a promise with slack.
func within(t *testing.T, what string, took, promise time.Duration) {
	t.Helper()
	if took > slack*promise {
		t.Errorf("%s took %v; promised are %v", what, took, promise)
	}
}

func TestManagementLeaderKilled(t *testing.T) {
	l := theLab(t)
	l.serverKilled(t, "mgmt leader killed", l.Leader(t))
}

func TestManagementFollowerKilled(t *testing.T) {
	l := theLab(t)
	l.serverKilled(t, "mgmt follower killed", l.Follower(t))
}

func TestManagementLeaderFrozen(t *testing.T) {
	l := theLab(t)
	l.serverFrozen(t, "mgmt leader frozen 20 s", l.Leader(t))
}

func TestManagementFollowerFrozen(t *testing.T) {
	l := theLab(t)
	l.serverFrozen(t, "mgmt follower frozen 20 s", l.Follower(t))
}

func (l *Lab) serverKilled(t *testing.T, event string, h *Host) {
	l.serverAway(t, event, func() { h.Kill(t) }, 5*time.Second, func() { h.Start(t) })
}

func (l *Lab) serverFrozen(t *testing.T, event string, h *Host) {
	l.serverAway(t, event, func() { h.Freeze(t) }, 20*time.Second, func() { h.Thaw(t) })
}

// serverAway takes one management server away for some time: clients notice
// nothing, those of names that no entry has seen neither.
func (l *Lab) serverAway(t *testing.T, event string, begin func(), away time.Duration, end func()) {
	t.Helper()
	unseen := l.newClients(t, 10)
	tr := l.Start(t, Traffic{})
	tr.Go(time.Second)
	tr.Fault()
	began := time.Now()
	begin()
	changes := l.changesWork(t)
	slowest, err := l.serve(t.Context(), unseen)
	if err != nil {
		t.Errorf("a name that no entry had seen: %v", err)
	}
	t.Logf("names that no entry had seen were served within %v", slowest)
	<-time.After(away - time.Since(began))
	end()
	tr.Go(5 * time.Second)
	m := tr.Stop(t)
	nothingNoticed(t, m)
	within(t, "a change", changes, electionLimit)
	within(t, "the slowest new connection", max(m.SlowestNew, slowest), lookupLimit)
	l.Record(t, event, m, changes, "until a change was made")
}

func (l *Lab) newClients(t *testing.T, n int) []*Client {
	t.Helper()
	var out []*Client
	for range n {
		out = append(out, l.NewClient(t, memberName))
	}
	return out
}

// serve opens a connection of every client through every entry, one after
// another, and returns how long the slowest took.
func (l *Lab) serve(ctx context.Context, clients []*Client) (slowest time.Duration, err error) {
	for _, c := range clients {
		for _, e := range l.Entries {
			begin := time.Now()
			if err := c.Try(ctx, e); err != nil {
				return 0, fmt.Errorf("after %v: %w", time.Since(begin), err)
			}
			slowest = max(slowest, time.Since(begin))
		}
	}
	return slowest, nil
}

// changesWork waits until a change is made and returns how long that took.
func (l *Lab) changesWork(t *testing.T) time.Duration {
	t.Helper()
	req := admin.MemberSetRequest{Ref: memberName, Note: new(time.Now().Format("at 15:04:05.000"))}
	return l.WaitFor(t, patience, "a change is made", func() error {
		_, err := call(t.Context(), l, admin.MemberSet, req)
		return err
	})
}
