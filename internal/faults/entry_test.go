//go:build faults

package faults

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
)

func TestEntryKilled(t *testing.T) {
	l := theLab(t)
	entry := l.Entries[0]
	tr := l.Start(t, Traffic{Failover: true})
	tun, err := l.clients[0].Connect(t.Context(), entry)
	if err != nil {
		t.Fatal(err)
	}
	defer tun.Close()
	tr.Go(time.Second)
	tr.Fault()
	entry.Kill(t)
	dropped, err := dies(tun, lab.SetupTime)
	if err != nil {
		t.Error(err)
	}
	begin := time.Now()
	if err := l.clients[0].Try(t.Context(), l.Entries[1]); err != nil {
		t.Errorf("at the other entry: %v", err)
	}
	recovery := dropped + time.Since(begin)
	tr.Go(3 * time.Second)
	entry.Start(t)
	tr.Go(3 * time.Second)
	m := tr.Stop(t)
	if m.FailedNew > 0 || m.LostOpen != m.Held/2 {
		t.Errorf("want the open connections of one entry lost and no other failure; %v", m)
	}
	within(t, "reconnecting", recovery, time.Second)
	l.Record(t, "entry killed", m, recovery, "until its client was served by the other")
}

func TestEntriesRestartedInTurn(t *testing.T) {
	l := theLab(t)
	tr := l.Start(t, Traffic{Balanced: true, Life: 4 * time.Second})
	tr.Go(time.Second)
	tr.Fault()
	begin := time.Now()
	for _, entry := range l.Entries {
		t.Logf("%s drained and ended after %v", entry.Name, entry.Stop(t, 30*time.Second).Round(time.Millisecond))
		if code := entry.role.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s ended with %d", entry.Name, code)
		}
		entry.Start(t)
		l.WaitFor(t, patience, entry.Name+" is ready", func() error { return entry.Ready(t.Context()) })
		tr.Go(time.Second) // the balancer sees it
	}
	took := time.Since(begin)
	tr.Go(2 * time.Second)
	m := tr.Stop(t)
	nothingNoticed(t, m)
	l.Record(t, "entries restarted in turn (SIGTERM, drain)", m, took, "for both")
}
