package kubes

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// story is a cluster, and what looks at it made of its state.
type story struct {
	t      *testing.T
	c      mesh.KubeCluster
	st     mesh.KubeState
	now    time.Time
	still  still
	events []mesh.Event
}

func newStory(t *testing.T) *story {
	return &story{t: t, c: mesh.KubeCluster{ID: "kube-a", Name: "paris"}, now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
}

func (s *story) want() {
	n := s.c.Wanted.Number + 1
	if s.c.Wanted.Number != 0 {
		s.c.Earlier = append(s.c.Earlier, s.c.Wanted)
	}
	s.c.Wanted = mesh.EntryRelease{Number: n, Pods: n}
}

func (s *story) ordered() mesh.EntryRelease { return s.c.Ordered(s.st) }

// see looks at the cluster once more, which says o of what is ordered.
func (s *story) see(after time.Duration, o kube.Observation) {
	s.now = s.now.Add(after)
	o.Release, o.At = s.ordered().Number, s.now
	var events []mesh.Event
	s.still.see(&o, s.now)
	pulse := pulse{still: s.still.lasts(s.now)}
	s.st, events = next(s.c, s.st, &o, pulse, s.now)
	s.events = append(s.events, events...)
	// Deciding again on what was decided changes nothing.
	again, more := next(s.c, s.st, &o, pulse, s.now)
	if len(more) != 0 || again.Ran != s.st.Ran || again.Parked != s.st.Parked {
		s.t.Errorf("a second look makes %+v and tells %+v", again, more)
	}
}

func pods(release int64, n int) (out []mesh.KubePod) {
	for range n {
		out = append(out, mesh.KubePod{Release: release, Ready: true})
	}
	return out
}

// runs is what a cluster says in which three pods of a release run.
func (s *story) runs() kube.Observation {
	return kube.Observation{Applied: true, Desired: 3, Updated: 3, Ready: 3, Pods: pods(s.ordered().Pods, 3)}
}

// stuck is what it says when one does not start beside those of before.
func (s *story) stuck() kube.Observation {
	return kube.Observation{Applied: true, Desired: 3, Updated: 1, Old: 3, Stuck: true, Why: "pod b: ImagePullBackOff: no such image\nlast line",
		Pods: append(pods(0, 3), mesh.KubePod{Release: s.ordered().Pods})}
}

func (s *story) told(want ...mesh.EventType) {
	s.t.Helper()
	var got []mesh.EventType
	for _, e := range s.events {
		got = append(got, e.Type)
		if e.Object != "kube/kube-a" || strings.Contains(e.Cause, "\n") {
			s.t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("told %v, want %v", got, want)
	}
	s.events = nil
}

func (s *story) is(phase mesh.KubePhase, ran, parked int64) {
	s.t.Helper()
	if s.st.Rollout.Phase != phase || s.st.Ran != ran || s.st.Parked != parked {
		s.t.Errorf("%s, ran %d, parked %d; want %s, %d, %d", s.st.Rollout.Phase, s.st.Ran, s.st.Parked, phase, ran, parked)
	}
}

func TestAReleaseThatRunsAndOneThatFails(t *testing.T) {
	s := newStory(t)
	s.want()
	s.see(0, kube.Observation{})
	s.is(mesh.KubeRolling, 0, 0)
	s.see(time.Minute, s.runs())
	s.is(mesh.KubeComplete, 1, 0)
	s.told(mesh.EventEntriesRolled)

	s.want()
	half := kube.Observation{Applied: true, Desired: 3, Updated: 1, Ready: 1, Old: 3, Pods: append(pods(1, 3), pods(2, 1)...)}
	s.see(time.Minute, half)
	s.is(mesh.KubeRolling, 1, 0)
	s.see(time.Minute, s.stuck())
	s.is(mesh.KubeFailed, 1, 2)
	if got := s.ordered().Number; got != 1 {
		t.Errorf("then %d is ordered", got)
	}
	if s.st.ParkedWhy != "pod b: ImagePullBackOff: no such image\nlast line" || !strings.Contains(s.events[0].Cause, "release 1 is put back") {
		t.Errorf("%q, %+v", s.st.ParkedWhy, s.events)
	}
	s.told(mesh.EventEntriesRolledBack)
	s.see(time.Second, kube.Observation{Applied: true, Desired: 3, Updated: 3, Ready: 3, Old: 1, Pods: append(pods(1, 3), mesh.KubePod{Release: 2})})
	s.is(mesh.KubeRolling, 1, 2)
	s.see(time.Second, s.runs())
	s.is(mesh.KubeComplete, 1, 2)
	s.told(mesh.EventEntriesRolled)
	s.see(time.Hour, s.runs())
	s.told()

	s.want()
	if got := s.ordered().Number; got != 3 {
		t.Errorf("a newer release is wanted, and %d ordered", got)
	}
	s.see(time.Minute, half)
	s.is(mesh.KubeRolling, 1, 0)
	s.see(time.Minute, s.runs())
	s.is(mesh.KubeComplete, 3, 0)
	s.told(mesh.EventEntriesRolled)
}

func TestTheFirstReleaseThatFailsStays(t *testing.T) {
	s := newStory(t)
	s.want()
	s.see(time.Minute, s.stuck())
	s.is(mesh.KubeFailed, 0, 1)
	if !strings.Contains(s.events[0].Cause, "it stays as it is") || s.ordered().Number != 1 {
		t.Errorf("%+v; ordered is %d", s.events, s.ordered().Number)
	}
	s.told(mesh.EventEntriesRolledBack)
	s.see(time.Hour, s.runs()) // the image is there at last
	s.is(mesh.KubeComplete, 1, 0)
	s.told(mesh.EventEntriesRolled)
}

func TestWhatTheAPIRefusesFails(t *testing.T) {
	for name, c := range map[string]struct {
		o     kube.Observation
		phase mesh.KubePhase
	}{
		"objects that it does not take":   {kube.Observation{Problems: []string{"Service/meshctl-entry: spec.ports: invalid"}}, mesh.KubeFailed},
		"a field that somebody keeps":     {kube.Observation{Problems: []string{"x"}, Conflicts: []mesh.KubeConflict{{Field: "spec.type"}}}, mesh.KubeRolling},
		"somebody with a later epoch":     {kube.Observation{Problems: []string{"x"}, Stale: true}, mesh.KubeRolling},
		"nothing has been refused so far": {kube.Observation{}, mesh.KubeRolling},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.want()
			s.see(0, s.runs())
			s.want()
			s.see(time.Second, c.o)
			s.is(mesh.KubeRolling, 1, 0)
			s.see(time.Hour, c.o)
			parked := int64(0)
			if c.phase == mesh.KubeFailed {
				parked = 2
			}
			s.is(c.phase, 1, parked)
		})
	}
}

func TestWhatHappensAfterItRan(t *testing.T) {
	s := newStory(t)
	s.want()
	s.see(0, s.runs())
	s.told(mesh.EventEntriesRolled)
	lost := s.runs()
	lost.Ready = 1
	s.see(time.Minute, lost) // a node is lost: no rolling update
	s.is(mesh.KubeComplete, 1, 0)
	if s.st.Rollout.Ready != 1 {
		t.Errorf("%+v", s.st.Rollout)
	}
	lost.Stuck, lost.Why = true, "pod c: Unschedulable"
	s.see(time.Minute, lost)
	if len(s.st.Problems) != 1 || !strings.Contains(s.st.Problems[0], "Unschedulable") {
		t.Errorf("%q", s.st.Problems)
	}
	// What pods are made from has changed, for instance with a newer server.
	s.see(time.Minute, s.stuck())
	s.is(mesh.KubeFailed, 1, 0)
	if s.ordered().Number != 1 || len(s.st.Problems) != 1 {
		t.Errorf("ordered is %d, problems %q", s.ordered().Number, s.st.Problems)
	}
	s.told()
	drains := s.runs()
	drains.Old, drains.Pods = 1, append(drains.Pods, mesh.KubePod{Release: 0, Ending: true})
	s.see(time.Minute, drains) // open connections may go on for hours
	s.is(mesh.KubeComplete, 1, 0)
	s.told(mesh.EventEntriesRolled)
}

func TestPausedRemovedAndIdle(t *testing.T) {
	s := newStory(t)
	s.see(0, kube.Observation{})
	s.is(mesh.KubeIdle, 0, 0)
	if !s.st.Well() || s.st.Since.IsZero() {
		t.Errorf("%+v", s.st)
	}
	s.want()
	s.c.Paused = true
	s.see(0, kube.Observation{Applied: true, Desired: 3, Paused: true})
	s.is(mesh.KubePausing, 0, 0)
	s.c.Paused = false
	s.see(0, s.runs())
	s.c.Removing = true
	if s.ordered().Number != 0 {
		t.Errorf("ordered is %+v", s.ordered())
	}
	s.see(0, kube.Observation{Pods: pods(1, 2)})
	s.is(mesh.KubeRemoving, 1, 0)
	s.c.Removing, s.c.Wanted = false, mesh.EntryRelease{}
	s.see(0, kube.Observation{})
	s.is(mesh.KubeIdle, 0, 0)
	if len(s.st.Pods) != 0 || s.st.Rollout.Desired != 0 {
		t.Errorf("%+v", s.st)
	}
}

func TestAClusterThatIsAway(t *testing.T) {
	s := newStory(t)
	s.want()
	first, _ := next(s.c, s.st, nil, pulse{}, s.now)
	if first.Contact != mesh.KubeStarting || !first.Well() {
		t.Errorf("before the first answer: %+v", first)
	}
	s.see(0, s.runs())
	seen := s.st.Seen
	s.see(time.Minute, kube.Observation{Failure: kube.Unreachable, Detail: "no answer in time"})
	if s.st.Contact != "unreachable" || s.st.Well() || s.st.Since != s.now || s.st.Seen != seen || len(s.st.Pods) != 3 || s.st.Rollout.Ready != 3 {
		t.Errorf("%+v", s.st)
	}
	since := s.now
	s.see(time.Minute, kube.Observation{Failure: kube.Unreachable, Detail: "no answer in time"})
	if s.st.Since != since {
		t.Error("it began anew")
	}
	s.see(time.Minute, s.runs())
	if !s.st.Well() || s.st.Seen != s.now || s.st.Since != s.now {
		t.Errorf("%+v", s.st)
	}
	quiet, _ := next(s.c, s.st, &kube.Observation{At: s.now}, pulse{silent: true}, s.now.Add(time.Hour))
	if quiet.Well() || !strings.Contains(quiet.Detail, "child process") {
		t.Errorf("of a child that says nothing: %+v", quiet)
	}
	s.told(mesh.EventEntriesRolled)

	// What is about another release says how the API is, and nothing of the pods.
	s.want()
	o := kube.Observation{Release: 1, At: s.now, Stuck: true, Applied: true, Desired: 3, Pods: pods(1, 1)}
	st, events := next(s.c, s.st, &o, pulse{}, s.now)
	if len(events) != 0 || len(st.Pods) != 3 || st.Parked != 0 {
		t.Errorf("%+v, %+v", st, events)
	}
}

func TestProblemsOfACluster(t *testing.T) {
	now := time.Now()
	got := strings.Join(Problems(mesh.KubeCluster{Ends: now.Add(time.Hour)}, mesh.KubeState{
		Contact: "credential", Detail: "Unauthorized", Parked: 2, ParkedWhy: "pod a: crash\nlog", Conflicts: []mesh.KubeConflict{{Object: "Service/x", Field: "spec.type", Manager: "kubectl"}},
		Problems: []string{"another"}, Policy: mesh.PolicyOpen, Addresses: []mesh.KubeAddress{{Host: "192.0.2.1", Port: 443, Tried: now, Why: "refused"}},
	}, now), "\n")
	for _, want := range []string{"credential: Unauthorized", "release 2 failed and is parked: pod a: crash", "Service/x: spec.type is kept otherwise by kubectl", "another", "not enforced", "192.0.2.1:443", "credential ends"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if p := Problems(mesh.KubeCluster{}, mesh.KubeState{}, now); len(p) != 0 {
		t.Errorf("%q", p)
	}
}

// A change of the number of pods for which there is no room is no release that
// failed: nothing is put back, and people are told after the deadline.
func TestPodsForWhichThereIsNoRoom(t *testing.T) {
	s := newStory(t)
	s.want()
	s.see(0, s.runs())
	s.told(mesh.EventEntriesRolled)
	s.want()
	s.c.Wanted.Pods = 1 // as many as five of the same
	full := kube.Observation{Applied: true, Desired: 5, Updated: 5, Ready: 3, Pods: append(pods(1, 3),
		mesh.KubePod{Name: "pod-d", Release: 1, Reason: "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."}, mesh.KubePod{Name: "pod-e", Release: 1})}
	s.see(0, full)
	s.see(4*time.Minute, full)
	s.is(mesh.KubeRolling, 1, 0)
	s.see(2*time.Minute, full)
	s.is(mesh.KubeLacking, 1, 0)
	if want := "3 of 5 pods are ready, and no more come: pod pod-d: Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."; s.st.Lacking != want {
		t.Errorf("it says %q, want %q", s.st.Lacking, want)
	}
	if p := Problems(s.c, s.st, s.now); len(p) != 1 || p[0] != s.st.Lacking {
		t.Errorf("problems: %q", p)
	}
	// The next leader has seen nothing stand still yet.
	s.still = still{}
	s.see(time.Second, full)
	s.is(mesh.KubeLacking, 1, 0)
	full.Stuck = true // as a daemonset may say
	s.see(time.Hour, full)
	s.is(mesh.KubeLacking, 1, 0)
	s.told()
	there := s.runs()
	there.Desired, there.Updated, there.Ready = 5, 5, 5
	s.see(time.Minute, there)
	s.is(mesh.KubeComplete, 2, 0)
	if s.st.Lacking != "" {
		t.Errorf("it still says %q", s.st.Lacking)
	}
	s.told(mesh.EventEntriesRolled)
	// A node is lost later, and there is no room for its pods.
	there.Ready = 4
	s.see(time.Minute, there)
	s.is(mesh.KubeComplete, 2, 0)
	s.see(time.Hour, there)
	s.is(mesh.KubeLacking, 2, 0)
}

// The clock on the wall may be set to anything: a release is given up after the
// deadline by the clock of the process.
func TestAWallClockThatJumpsGivesUpNothing(t *testing.T) {
	s := newStory(t)
	s.want()
	o := kube.Observation{Problems: []string{"Service/meshctl-entry: the port is taken"}}
	s.see(0, o)
	st, events := next(s.c, s.st, &kube.Observation{Release: 1, Problems: o.Problems}, pulse{still: time.Minute}, s.now.Add(24*time.Hour))
	if st.Parked != 0 || len(events) != 0 {
		t.Errorf("parked %d, %+v", st.Parked, events)
	}
	s.see(6*time.Minute, o)
	s.is(mesh.KubeFailed, 0, 1)
}

func TestAPauseIsNoStandstill(t *testing.T) {
	var s still
	now := time.Now()
	o := &kube.Observation{Release: 1, Desired: 3}
	s.see(o, now)
	s.see(o, now.Add(time.Minute))
	if got := s.lasts(now.Add(time.Minute)); got != time.Minute {
		t.Errorf("still for %v", got)
	}
	for name, change := range map[string]func(*kube.Observation){
		"paused":   func(o *kube.Observation) { o.Paused = true },
		"away":     func(o *kube.Observation) { o.Failure = kube.Unreachable },
		"conflict": func(o *kube.Observation) { o.Conflicts = []mesh.KubeConflict{{Field: "spec.type"}} },
		"a figure": func(o *kube.Observation) { o.Ready++ },
		"release":  func(o *kube.Observation) { o.Release++ },
	} {
		s, o := s, *o
		change(&o)
		s.see(&o, now.Add(time.Hour))
		if got := s.lasts(now.Add(time.Hour)); got != 0 {
			t.Errorf("%s: still for %v", name, got)
		}
	}
}

// While the API is away, somebody else keeps a field, or the child says nothing, no time
// passes for a release: one with problems beside it is not given up once that is over.
func TestTimeThatNobodyCouldUseGivesUpNothing(t *testing.T) {
	for name, meanwhile := range map[string]kube.Observation{
		"away":     {Failure: kube.Unreachable, Desired: 3, Old: 3},
		"conflict": {Conflicts: []mesh.KubeConflict{{Field: "spec.type"}}, Desired: 3, Old: 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.want()
			s.see(0, s.runs())
			s.want()
			s.see(time.Second, meanwhile)
			s.see(time.Hour, meanwhile)
			begins := kube.Observation{Desired: 3, Old: 3, Problems: []string{"Namespace/x: it does not enforce the Pod Security standard restricted"}}
			s.see(time.Second, begins) // what was just applied is not seen yet
			s.is(mesh.KubeRolling, 1, 0)
			st, _ := next(s.c, s.st, &kube.Observation{Release: 2, Problems: begins.Problems}, pulse{silent: true, still: time.Hour}, s.now.Add(time.Hour))
			if st.Parked != 0 || st.Well() {
				t.Errorf("parked %d by what was said an hour ago, contact %q", st.Parked, st.Contact)
			}
			s.see(time.Hour, begins)
			s.is(mesh.KubeFailed, 1, 2)
		})
	}
}
