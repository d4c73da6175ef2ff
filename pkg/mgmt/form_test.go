package mgmt

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestThreeServersFoundOneMesh(t *testing.T) {
	x := newTrio(t, "a", "b", "c")
	begin := time.Now()
	c := x.start(2)
	c.says(t, "1 of 3 servers are there (c); waiting for")
	b := x.start(1)
	b.says(t, "2 of 3 servers are there (b, c); waiting for")
	a := x.start(0)
	id := x.whole(a, b, c)
	t.Logf("founded in %v", time.Since(begin))

	// All stopped, and started again: nobody asks for anything.
	for _, m := range []*member{a, b, c} {
		m.stop(t)
	}
	var again []*member
	for i := range 3 {
		again = append(again, x.start(i, func(s *Server) { s.Passphrase, s.BootstrapSecret = nil, nil }))
	}
	if got := x.whole(again...); got != id {
		t.Errorf("resumed as %s, want %s", got, id)
	}
	// One is gone: the others go on, and say that they could not lose another.
	again[0].stop(t)
	eventually(t, "b notices that a is away", func() bool {
		st := again[1].status(t)
		return !st.HighlyAvailable && strings.Contains(st.Availability, "away: a")
	})
	cc, err := admin.DialSocket(again[1].Config.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	eventually(t, "changes go on", func() bool { // once another leads
		_, err := admin.MemberAdd.Call(t.Context(), cc, admin.MemberAddRequest{Name: "Ada"})
		return err == nil || errors.Is(err, mesh.ErrExists)
	})
}

var errKilled = errors.New("killed")

// TestFoundingGoesOnWhereItWasKilled ends a server at one step after the other,
// starts it again, and finds one mesh in the end.
func TestFoundingGoesOnWhereItWasKilled(t *testing.T) {
	x := newTrio(t, "a", "b", "c")
	kill := func(at string) func(*Server) {
		return func(s *Server) {
			s.step = func(step string) error {
				if step == at {
					return errKilled
				}
				return nil
			}
		}
	}
	killed := func(m *member, at string) {
		t.Helper()
		select {
		case <-m.done:
			if !errors.Is(m.err, errKilled) {
				t.Fatalf("%s, to be killed at %q: %v", m.Config.Name, at, m.err)
			}
		case <-time.After(formPatience):
			t.Fatalf("%s has not come to %q within %v", m.Config.Name, at, formPatience)
		}
	}
	killed(x.start(1, kill("begun")), "begun")
	b, c := x.start(1), x.start(2)
	for _, at := range []string{"begun", "root", "promised to itself"} {
		killed(x.start(0, kill(at)), at)
	}
	b.stop(t)
	b = x.start(1)
	for _, at := range []string{"asked b", "asked c"} {
		killed(x.start(0, kill(at)), at)
	}
	for _, i := range []int{1, 2} { // between the promise and what comes next
		m := map[int]*member{1: b, 2: c}[i]
		m.stop(t)
	}
	b, c = x.start(1, kill("handed over")), x.start(2)
	for _, at := range []string{"planned", "keys", "founded"} {
		killed(x.start(0, kill(at)), at)
	}
	a := x.start(0)
	killed(b, "handed over")
	killed(x.start(1, kill("keys")), "keys")
	killed(x.start(1, kill("founded")), "founded")
	b = x.start(1)
	// All at once, at whatever they are doing now.
	for _, m := range []*member{a, b, c} {
		m.stop(t)
	}
	x.whole(x.start(0), x.start(1), x.start(2))
}

func TestWhatKeepsServersApartIsSaid(t *testing.T) {
	t.Run("two of one name", func(t *testing.T) {
		x := newTrio(t, "a", "b", "b")
		var ms []*member
		for i := range 3 {
			ms = append(ms, x.start(i))
		}
		for _, m := range ms {
			m.says(t, `two servers have the name`)
		}
	})
	t.Run("another secret", func(t *testing.T) {
		x := newTrio(t, "a", "b", "c")
		a, b := x.start(0), x.start(1)
		x.start(2, func(s *Server) {
			s.BootstrapSecret = func(context.Context) (mesh.Secret, error) { return mesh.NewSecret(MinBootstrapSecret), nil }
		}).says(t, "has another bootstrap secret")
		a.says(t, "has another bootstrap secret")
		b.says(t, "has another bootstrap secret")
	})
	t.Run("a short secret", func(t *testing.T) {
		x := newTrio(t, "a", "b", "c")
		m := x.start(0, func(s *Server) {
			s.BootstrapSecret = func(context.Context) (mesh.Secret, error) { return "short", nil }
		})
		<-m.done
		if !errors.Is(m.err, ErrSetup) || !strings.Contains(m.err.Error(), "at least 32") {
			t.Errorf("got %v", m.err)
		}
	})
}

// TestAPromiseHolds: who has promised takes part in no other founding, for as
// long as the promise is not withdrawn.
func TestAPromiseHolds(t *testing.T) {
	x := newTrio(t, "a", "b", "c")
	stuck := func(s *Server) {
		s.step = func(step string) error {
			if step == "asked c" {
				return errKilled
			}
			return nil
		}
	}
	b, c := x.start(1), x.start(2)
	a := x.start(0, stuck)
	<-a.done
	// The founder is lost, with its folder. One that takes its place gets nothing.
	if err := os.RemoveAll(x.confs[0].Dir); err != nil {
		t.Fatal(err)
	}
	a = x.start(0)
	a.says(t, "has promised to found")
	a.stop(t)
	if _, err := Abandon(x.confs[1].Dir); !errors.Is(err, ErrSetup) {
		t.Errorf("abandoned under a running server: %v", err)
	}
	for i, m := range []*member{b, c} {
		m.stop(t)
		if line, err := Abandon(x.confs[i+1].Dir); err != nil || !strings.Contains(line, "withdrawn") {
			t.Errorf("abandon: %q, %v", line, err)
		}
	}
	if _, err := Abandon(x.confs[1].Dir); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("abandon again: %v", err)
	}
	// The new founder's own attempt had a root already: the same goes on.
	x.whole(x.start(0), x.start(1), x.start(2))
	var wg sync.WaitGroup
	for _, m := range x.servs {
		wg.Go(func() { m.end() })
	}
	wg.Wait()
	for _, m := range x.servs {
		<-m.done
	}
	if _, err := Abandon(x.confs[1].Dir); !errors.Is(err, mesh.ErrConflict) {
		t.Errorf("abandoned a mesh: %v", err)
	}
}

func TestClocksThatAreApartAreNamed(t *testing.T) {
	x := &former{srv: &Server{}, now: time.Now, turn: make(chan struct{}, 1), state: formation{Name: "b"}}
	x.turn <- struct{}{}
	err := x.give(&controlpb.PromiseRequest{FounderName: "a", ClockUnixNanos: time.Now().Add(11 * time.Minute).UnixNano()})
	if err == nil || !strings.Contains(err.Error(), "the clocks are 11m0s apart") || x.state.Promise != nil {
		t.Errorf("got %v, promise %v", err, x.state.Promise)
	}
}

func TestAProofIsOfOneSecretOneDirectionAndOneConnection(t *testing.T) {
	secret := mesh.NewSecret(MinBootstrapSecret)
	p := prover{secret, []byte("one")}
	if err := (prover{secret, []byte("one")}).check(proofAsk, p.proof(proofAsk)); err != nil {
		t.Error(err)
	}
	for what, other := range map[string]error{
		"another secret":     (prover{mesh.NewSecret(MinBootstrapSecret), p.value}).check(proofAsk, p.proof(proofAsk)),
		"another connection": (prover{secret, []byte("other")}).check(proofAsk, p.proof(proofAsk)),
		"sent back":          p.check(proofAnswer, p.proof(proofAsk)),
		"none":               p.check(proofAsk, nil),
	} {
		if !errors.Is(other, mesh.ErrDenied) {
			t.Errorf("%s: %v", what, other)
		}
	}
	if _, err := newProver("short", nil); !errors.Is(err, mesh.ErrDenied) {
		t.Errorf("without a secret: %v", err)
	}
}
