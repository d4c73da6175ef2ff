package linear

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// length is the duration in an environment variable, or the usual one.
func length(t *testing.T, name string, usual time.Duration) time.Duration {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return usual
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheStoreIsLinearizableUnderFaults(t *testing.T) {
	c := newCluster(t)
	r := &recorder{start: time.Now(), ids: map[string]mesh.MemberID{}, fates: map[string]fate{}}
	var stores [3]*store.Store
	var clients []*client
	for i := range stores {
		stores[i] = c.open(i, 0, 0)
		// The impatient learn less often what became of a change.
		for _, s := range []*store.Store{stores[i], c.open(i, time.Second, 300*time.Millisecond)} {
			clients = append(clients, &client{n: len(clients), s: s, r: r, held: map[string]string{}})
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), length(t, "MESHCTL_LINEAR", time.Minute))
	defer cancel()
	var wg sync.WaitGroup
	for _, cl := range clients {
		wg.Go(func() { cl.run(ctx) })
	}
	faults := c.breakThings(ctx)
	wg.Wait()
	for _, s := range stores {
		c.caughtUp(s)
	}
	for object, id := range r.ids {
		clients[2*rand.N(3)].read(object, id)
	}
	check(t, r.ops)
	r.audit(t, stores[0])
	count := map[fate]int{}
	for _, f := range r.fates {
		count[f]++
	}
	t.Logf("%d operations on %d objects: %d changes acknowledged, %d refused, %d unknown; faults %v",
		len(r.ops), len(r.ids), count[acknowledged], count[refused], count[unknown], faults)
	if count[acknowledged] == 0 || len(faults) == 0 {
		t.Error("nothing was tried")
	}
}

func TestTheWiresSeparateMembers(t *testing.T) {
	c := newCluster(t)
	for name, s := range map[string]state{"cut off": cut, "holed": holed} {
		i := c.leader()
		c.wires.set(s, around(i)...)
		for end := time.Now().Add(patience); c.members[i].leads.Load() || !c.members[(i+1)%3].leads.Load() && !c.members[(i+2)%3].leads.Load(); {
			if time.Now().After(end) {
				t.Fatalf("%s: no other leads within a minute", name)
			}
			pause(t.Context(), 5*time.Millisecond)
		}
		c.wires.set(open, around(i)...)
		c.caughtUp(c.open(i, 0, 0))
	}
}

// breakThings breaks one thing after another until ctx ends, then leaves all
// well. It returns how often each was broken.
func (c *cluster) breakThings(ctx context.Context) map[string]int {
	c.t.Helper()
	done := map[string]int{}
	kinds := []string{"killed", "stopped", "cut off", "holed", "half cut off"}
	for n := 0; ctx.Err() == nil; n++ {
		pause(ctx, time.Second+rand.N(time.Second))
		i := rand.N(3)
		if rand.N(3) > 0 {
			i = c.leader()
		}
		kind := kinds[n%len(kinds)]
		c.harm(ctx, kind, i)
		done[kind]++
	}
	return done
}

// harm breaks one thing at a member for some seconds, and mends it.
func (c *cluster) harm(ctx context.Context, kind string, i int) {
	c.t.Helper()
	last := time.Second + rand.N(3*time.Second)
	switch kind {
	case "killed":
		c.kill(i)
		pause(ctx, last)
		c.start(i)
		c.await(i)
	case "stopped":
		c.signal(i, syscall.SIGSTOP)
		pause(ctx, last)
		c.signal(i, syscall.SIGCONT)
	case "cut off":
		c.between(ctx, cut, last, around(i))
	case "holed":
		c.between(ctx, holed, last, around(i))
	case "half cut off": // from one of the others
		c.between(ctx, cut, last, []way{{i, (i + 1) % 3}, {(i + 1) % 3, i}})
	}
}

func (c *cluster) between(ctx context.Context, s state, last time.Duration, ways []way) {
	c.wires.set(s, ways...)
	pause(ctx, last)
	c.wires.set(open, ways...)
}

// audit checks that what was acknowledged is there, once, and what was refused
// is not: each change leaves one record, in the transaction that makes it.
func (r *recorder) audit(t *testing.T, s *store.Store) {
	t.Helper()
	records, _, err := s.Audit.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]int{}
	for _, rec := range records {
		made[rec.Request]++
	}
	for request, f := range r.fates {
		n := made[request]
		if n > 1 || f == acknowledged && n != 1 || f == refused && n != 0 {
			t.Errorf("%s was made %d times, and its fate is %d", request, n, f)
		}
	}
}
