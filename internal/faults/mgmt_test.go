//go:build faults

package faults

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
)

// nothingNoticed wants no client to have seen a failure.
func nothingNoticed(t *testing.T, m Measured) {
	t.Helper()
	if m.FailedNew != 0 || m.LostOpen != 0 {
		t.Errorf("%d new connections failed and %d open ones were lost; want none", m.FailedNew, m.LostOpen)
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

func (l *Lab) serverKilled(t *testing.T, event string, h *Host) {
	tr := l.Start(t, Traffic{})
	tr.Go(time.Second)
	tr.Fault()
	h.Kill(t)
	changes := l.changesWork(t)
	tr.Go(5 * time.Second)
	h.Start(t)
	m := tr.Stop(t)
	nothingNoticed(t, m)
	l.Record(t, event, m, changes, "until a change was made")
}

// changesWork waits until a change is made and returns how long that took.
func (l *Lab) changesWork(t *testing.T) time.Duration {
	t.Helper()
	l.devices++
	name := time.Now().Format("note 15:04:05.000")
	return l.WaitFor(t, patience, "a change is made", func() error {
		_, err := call(t.Context(), l, admin.MemberSet, admin.MemberSetRequest{Ref: memberName, Note: &name})
		return err
	})
}
