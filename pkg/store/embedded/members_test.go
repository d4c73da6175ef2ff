package embedded_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/embedded"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func peerURL(t *testing.T) string { return "https://" + freeport.Addr(t) }

// eventually tries f until it succeeds.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	if err := patiently(f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// patiently is eventually for another goroutine than the test's.
func patiently(f func() error) error {
	for end := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		if err := f(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

func peers(t *testing.T, m *embedded.Member) map[string]embedded.Peer {
	t.Helper()
	all, err := m.Peers()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]embedded.Peer{}
	for _, p := range all {
		out[p.URL] = p
	}
	return out
}

func TestAClusterGrowsByLearnersAndShrinks(t *testing.T) {
	ca := storetest.NewCA(t)
	one := newMember(t, ca, t.TempDir(), new(logBuffer))
	one.PeerURL = peerURL(t)
	one.Heartbeat, one.Election = 100*time.Millisecond, 2*time.Second // with less, a busy machine elects anew in between
	run(t, one)

	two := newMember(t, ca, t.TempDir(), new(logBuffer))
	two.Heartbeat, two.Election = one.Heartbeat, one.Election
	two.Name, two.PeerURL, two.Existing = "two", peerURL(t), true
	two.Cluster = "one=" + one.PeerURL + ",two=" + two.PeerURL
	eventually(t, "add", func() error { return one.AddLearner(t.Context(), two.PeerURL) })
	if err := one.AddLearner(t.Context(), two.PeerURL); !errors.Is(err, mesh.ErrExists) {
		t.Errorf("the same again: %v", err)
	}
	id := peers(t, one)[two.PeerURL].ID
	if err := one.Promote(t.Context(), id); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("promoted before it ran: %v", err)
	}
	promoted := make(chan error, 1)
	go func() { promoted <- patiently(func() error { return one.Promote(t.Context(), id) }) }()
	stop := run(t, two)
	if err := <-promoted; err != nil {
		t.Fatalf("promote: %v", err)
	}
	if got := peers(t, one); len(got) != 2 || got[two.PeerURL].Learner || !got[one.PeerURL].Leader {
		t.Errorf("members %+v", got)
	}
	if err := two.Lead(t.Context(), id); !errors.Is(err, mesh.ErrConflict) {
		t.Errorf("a follower gave leadership away: %v", err)
	}
	eventually(t, "move leader", func() error {
		err := one.Lead(t.Context(), id)
		if errors.Is(err, mesh.ErrConflict) { // it has been moved, or somebody was elected
			return nil
		}
		return err
	})
	eventually(t, "two leads", func() error {
		if !peers(t, two)[two.PeerURL].Leader {
			return errors.New("it does not")
		}
		return nil
	})
	// While it is down it cannot be removed: one of two is no quorum.
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	again := func() *embedded.Member {
		m := *newMember(t, ca, t.TempDir(), new(logBuffer))
		m.Dir, m.TLSDir, m.Name, m.PeerURL = two.Dir, two.TLSDir, two.Name, two.PeerURL
		m.Heartbeat, m.Election = two.Heartbeat, two.Election
		return &m
	}
	back := again()
	stop = run(t, back)
	eventually(t, "remove", func() error { return one.Remove(t.Context(), id) })
	// Removing again changes nothing; until the rest has found a leader it waits.
	eventually(t, "remove again", func() error { return one.Remove(t.Context(), id) })
	eventually(t, "one is alone", func() error {
		if n := len(peers(t, one)); n != 1 {
			return errors.New("there are others")
		}
		return nil
	})
	if err := stop(); err != nil && !errors.Is(err, embedded.ErrRemoved) {
		t.Error(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- again().Run(context.Background(), func() {}) }()
	select {
	case err := <-ended:
		if !errors.Is(err, embedded.ErrRemoved) {
			t.Errorf("the removed member's return: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the removed member does not stop")
	}
}
