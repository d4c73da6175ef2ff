//go:build faults

package faults

import (
	"maps"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
)

func TestManagementSplitFromFollower(t *testing.T) {
	l := theLab(t)
	l.split(t, "network split inside mgmt: a follower alone", l.Follower(t))
}

func TestManagementSplitFromLeader(t *testing.T) {
	l := theLab(t)
	l.split(t, "network split inside mgmt: the leader alone", l.Leader(t))
}

// split cuts one server and one entry off from the other servers. What reaches
// that server alone is served from what it has; changes are made where the
// quorum is.
func (l *Lab) split(t *testing.T, event string, alone *Host) {
	t.Helper()
	unseen := l.newClients(t, 5)
	var majority []*Host
	for _, h := range l.Mgmt {
		if h != alone {
			majority = append(majority, h)
		}
	}
	tr := l.Start(t, Traffic{})
	writes := l.write(t, l.Mgmt...)
	tr.Go(time.Second)
	tr.Fault()
	l.CutBetween(t, []*Host{alone, l.Entries[1]}, majority)
	req := admin.MemberSetRequest{Ref: memberName, Note: new(event)}
	changes := l.WaitFor(t, patience, "the side with the quorum makes a change", func() error {
		_, err := callAt(t.Context(), l, majority[0], admin.MemberSet, req)
		return err
	})
	tr.Go(5 * time.Second)
	l.refusesChanges(t, alone)
	slowest, err := l.serve(t.Context(), unseen)
	if err != nil {
		t.Errorf("a name that no entry had seen: %v", err)
	}
	marked := l.Entries[1].Metric(t, "answers_without_leader_total")
	t.Logf("names that no entry had seen were served within %v; %v answers of the side without quorum were marked", slowest, marked)
	if marked == 0 {
		t.Error("no answer of the side without quorum was marked")
	}
	tr.Go(5 * time.Second)
	l.Heal(t)
	healed := l.WaitFor(t, patience, "the server that was alone makes a change", func() error {
		_, err := callAt(t.Context(), l, alone, admin.MemberSet, req)
		return err
	})
	acknowledged := maps.Clone(writes.stop())
	m := tr.Stop(t)
	nothingNoticed(t, m)
	within(t, "a change", changes, electionLimit)
	within(t, "the slowest new connection", max(m.SlowestNew, slowest), lookupLimit)
	l.stillThere(t, acknowledged)
	t.Logf("the server that was alone made a change %v after the split was over", healed)
	l.Record(t, event, m, changes, "until a change was made on the side with the quorum")
}
