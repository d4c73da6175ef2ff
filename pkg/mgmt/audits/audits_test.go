package audits_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/audit"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/audits"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hasty chains at once, three records to a link.
var hasty = audits.Pace{Every: time.Nanosecond, Most: 3, Margin: time.Nanosecond, Look: 10 * time.Millisecond, Check: 10 * time.Millisecond}

// write makes so many changes.
func write(t *testing.T, s *store.Store, n int) {
	t.Helper()
	for range n {
		m := mesh.Member{ID: mesh.NewMemberID(), State: mesh.MemberActive, Created: time.Now().UTC()}
		m.Name = store.NewTimeID(time.Now())
		if _, err := s.Change(t.Context(), store.By{Actor: "local:0", Request: "r"}, "member.add", func(tx *store.Tx) error {
			return store.Create(tx, s.Members, m.ID, m)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs the service of a server until the returned function is called.
func run(t *testing.T, s *store.Store, server mesh.ServerID, pace audits.Pace) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		service := &audits.Service{Store: s, Server: server, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Pace: pace}
		if err := service.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

func report(t *testing.T, s *store.Store) audit.Report {
	t.Helper()
	r, err := audits.Check(t.Context(), s, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(what)
		}
	}
}

func TestLeadersChainWhatIsWritten(t *testing.T) {
	addr := storetest.Etcd(t)
	s := storetest.Open(t, addr)
	var stops []func()
	for i := range 3 {
		stops = append(stops, run(t, storetest.Open(t, addr), mesh.ServerID(fmt.Sprint("mgmt-", i)), hasty))
	}
	total := 0
	for _, stop := range append(stops[:2:2], nil) { // whoever leads, the next goes on
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { write(t, s, 4) })
		}
		wg.Wait()
		total += 8
		until(t, "all is chained", func() bool { r := report(t, s); return r.Records == total && r.Open == 0 })
		if stop != nil {
			stop()
		}
	}
	r := report(t, s)
	if r.Wrong != 0 || r.First != audit.Number(1) || r.Trimmed != 0 || r.Last != audit.Number(uint64(r.Links)) {
		t.Errorf("got %+v", r)
	}
}

func TestALinkWaitsUntilItIsDue(t *testing.T) {
	s := storetest.New(t)
	pace := hasty
	pace.Every = time.Hour
	run(t, s, "mgmt-a", pace)
	write(t, s, 7)
	until(t, "two links are full", func() bool { return report(t, s).Links == 2 })
	if r := report(t, s); r.Open != 1 || r.Wrong != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestWhatWasTamperedWithIsToldOnce(t *testing.T) {
	s := storetest.New(t)
	write(t, s, 3)
	stop := run(t, s, "mgmt-a", hasty)
	until(t, "they are chained", func() bool { return report(t, s).Records == 3 })
	resp, err := s.Client().Get(t.Context(), "/mesh/v1/audit/", clientv3.WithPrefix(), clientv3.WithLimit(1))
	if err != nil {
		t.Fatal(err)
	}
	kv := resp.Kvs[0]
	if _, err := s.Client().Put(t.Context(), string(kv.Key), strings.Replace(string(kv.Value), "local:0", "local:7", 1)); err != nil {
		t.Fatal(err)
	}
	told := func() int {
		events, _, err := s.Events.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, e := range events {
			if e.Type == mesh.EventAuditBroken && e.Severity == mesh.Critical && strings.Contains(e.Cause, "link 1: ") {
				n++
			}
		}
		return n
	}
	until(t, "it is told", func() bool { return told() > 0 })
	stop()
	stop = run(t, s, "mgmt-b", hasty) // checks as it begins, and then goes on
	write(t, s, 1)
	until(t, "the chain goes on", func() bool { return report(t, s).Links > 1 })
	stop()
	if n := told(); n != 1 {
		t.Errorf("told %d times", n)
	}
	if r := report(t, s); r.Wrong != 1 {
		t.Errorf("got %v", r.Faults)
	}
}

func TestNothingIsChainedWithoutAQuorum(t *testing.T) {
	link := storetest.NewLink(t, storetest.Etcd(t))
	s := storetest.Open(t, link.Addr())
	write(t, s, 1)
	link.Cut()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := audits.Check(ctx, s, time.Now()); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
	stop := run(t, s, "mgmt-a", hasty)
	link.Heal()
	until(t, "it is chained when etcd is back", func() bool { r, err := audits.Check(t.Context(), s, time.Now()); return err == nil && r.Records == 1 })
	stop()
}
