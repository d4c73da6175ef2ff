package kubes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// step is what one look at a cluster makes of its state.
type step struct {
	c      mesh.KubeCluster
	st     mesh.KubeState
	o      *kube.Observation // the last one; nil: none yet
	rel    mesh.EntryRelease // that is ordered
	now    time.Time
	pulse  pulse
	events []mesh.Event
}

// pulse is what this process has measured by its own clock.
type pulse struct {
	silent bool          // the child should have said something by now
	still  time.Duration // how long nothing has moved
}

// still is since when the pods of a release are as many as they are, as far as the
// cluster could be seen and nobody else had to do something.
type still struct {
	release int64
	figures [4]int
	since   time.Time
}

func (s *still) see(o *kube.Observation, now time.Time) {
	is := still{o.Release, [4]int{o.Desired, o.Updated, o.Ready, o.Old}, now}
	if o.Paused || len(o.Conflicts) > 0 || !looked(o) || s.release != is.release || s.figures != is.figures || s.since.IsZero() {
		*s = is
	}
}

func (s *still) lasts(now time.Time) time.Duration {
	if s.since.IsZero() {
		return 0
	}
	return now.Sub(s.since)
}

// next is the state after a look, and what people are told of it.
func next(c mesh.KubeCluster, st mesh.KubeState, o *kube.Observation, p pulse, now time.Time) (mesh.KubeState, []mesh.Event) {
	st.Cluster = c.ID
	if st.Parked != c.Wanted.Number {
		st.Parked, st.ParkedWhy = 0, "" // another release is wanted by now
	}
	s := &step{c: c, st: st, o: o, rel: c.Ordered(st), now: now, pulse: p}
	if idle(c) {
		s.idle()
		return s.st, s.events
	}
	s.contact()
	if s.current() {
		s.figures()
		s.rollout()
	}
	return s.st, s.events
}

// idle is a cluster in which nothing is wanted: it is looked at now and then.
func (s *step) idle() {
	was := s.st
	s.st = mesh.KubeState{
		Cluster: s.c.ID, Server: was.Server, Since: was.Since, Seen: was.Seen, Version: was.Version,
		Rollout: mesh.KubeRollout{Phase: mesh.KubeIdle, Since: was.Rollout.Since},
	}
	if was.Since.IsZero() || was.Contact != "" {
		s.st.Since = s.now
	}
	if was.Rollout.Phase != mesh.KubeIdle {
		s.st.Rollout.Since = s.now
	}
	s.seen()
}

// contact is how the API is reached.
func (s *step) contact() {
	word, detail := s.st.Contact, s.st.Detail
	switch {
	case s.pulse.silent:
		word, detail = string(kube.Unreachable), "the child process of this server has said nothing of it"
	case s.o != nil:
		word, detail = string(s.o.Failure), s.o.Detail
	case s.st.Since.IsZero():
		word, detail = mesh.KubeStarting, ""
	}
	if word != s.st.Contact || s.st.Since.IsZero() {
		s.st.Since = s.now
	}
	s.st.Contact, s.st.Detail = word, detail
	s.seen()
}

func (s *step) seen() {
	if s.o != nil && s.o.Failure == kube.NoFailure {
		s.st.Seen, s.st.Version = s.o.At, s.o.Version
	}
}

// current says whether the last observation is of what is ordered, and has seen the
// cluster.
func (s *step) current() bool {
	return s.o != nil && !s.pulse.silent && s.o.Release == s.rel.Number && looked(s.o)
}

// looked says whether an observation has seen the cluster as it is then.
func looked(o *kube.Observation) bool {
	return slices.Contains([]kube.Failure{kube.NoFailure, kube.Foreign, kube.Denied}, o.Failure)
}

func (s *step) figures() {
	s.st.Pods, s.st.Tally, s.st.Conflicts = s.o.Pods, s.o.Tally, s.o.Conflicts
	s.st.Problems = slices.Clone(s.o.Problems)
	if s.o.Stale {
		s.st.Problems = append(s.st.Problems, "a management server with a later epoch keeps this cluster, and this one writes nothing there")
	}
}

// rollout is how far the release is, and what follows from it.
func (s *step) rollout() {
	r := s.st.Rollout
	if r.Release != s.rel.Number {
		r = mesh.KubeRollout{Release: s.rel.Number, Since: s.now, Moved: s.now}
	}
	moved := r.Desired != s.o.Desired || r.Updated != s.o.Updated || r.Ready != s.o.Ready || r.Old != s.o.Old
	if moved {
		r.Moved = s.now
	}
	r.Desired, r.Updated, r.Ready, r.Old = s.o.Desired, s.o.Updated, s.o.Ready, s.o.Old
	was := r.Phase
	if r.Phase = s.phase(r, moved); r.Phase != was {
		r.Since = s.now
	}
	s.st.Rollout, s.st.Lacking = r, ""
	switch {
	case r.Phase == mesh.KubeComplete && was != mesh.KubeComplete:
		s.complete()
	case r.Phase == mesh.KubeComplete && s.o.Stuck:
		s.st.Problems = append(s.st.Problems, "pods that are to be added do not get ready: "+firstLine(s.why()))
	case r.Phase == mesh.KubeFailed:
		s.failed()
	case r.Phase == mesh.KubeLacking:
		s.st.Lacking = s.lacking(r)
	}
}

func (s *step) phase(r mesh.KubeRollout, moved bool) mesh.KubePhase {
	switch {
	case s.c.Removing:
		return mesh.KubeRemoving
	case s.earlierServe() > 0: // also after it was complete: what pods are made from has changed
	case s.o.Applied && r.Desired > 0 && r.Updated >= r.Desired && r.Ready >= r.Desired:
		return mesh.KubeComplete
	case s.lacks(), r.Phase == mesh.KubeLacking && !moved && s.proven():
		return mesh.KubeLacking
	case r.Phase == mesh.KubeComplete:
		return mesh.KubeComplete
	}
	switch {
	case s.o.Stuck && !s.scaled(), s.refused():
		return mesh.KubeFailed
	case s.o.Paused:
		return mesh.KubePausing
	}
	return mesh.KubeRolling
}

// earlierServe counts pods of other releases that have not been told to end.
func (s *step) earlierServe() (n int) {
	for _, p := range s.o.Pods {
		if !p.Ending && p.Release != s.rel.Pods {
			n++
		}
	}
	return max(n, s.o.Earlier) // not all pods may be described
}

// proven: pods made from the same have run here.
func (s *step) proven() bool {
	all := append(slices.Clone(s.c.Earlier), s.c.Wanted)
	i := slices.IndexFunc(all, func(r mesh.EntryRelease) bool { return r.Number == s.st.Ran })
	return s.st.Ran != 0 && i >= 0 && all[i].Pods == s.rel.Pods
}

// scaled: the release changed how many pods there are, or something beside them, and
// all that are there are as good as those before.
func (s *step) scaled() bool {
	return s.rel.Number == s.c.Wanted.Number && s.rel.Number != s.st.Ran && s.proven() && s.earlierServe() == 0
}

// late: nothing has moved for as long as a rolling update may make no progress.
func (s *step) late() bool {
	return s.pulse.still > time.Duration(s.rel.Layer.WithDefaults().Deadline)
}

// lacks: pods that have run here are too few, and no more come. There is nothing
// better to put back: somebody has to make room.
func (s *step) lacks() bool {
	return s.proven() && s.o.Applied && !s.o.Paused && !s.o.Stale && s.o.Ready < s.o.Desired && s.late()
}

// lacking says which pods are not there, and why.
func (s *step) lacking(r mesh.KubeRollout) string {
	text := fmt.Sprintf("%d of %d pods are ready, and no more come", r.Ready, r.Desired)
	i := slices.IndexFunc(s.o.Pods, func(p mesh.KubePod) bool { return !p.Ready && !p.Ending && p.Reason != "" })
	switch {
	case i >= 0:
		return fmt.Sprintf("%s: pod %s: %s", text, s.o.Pods[i].Name, firstLine(s.o.Pods[i].Reason))
	case len(s.o.Problems) > 0:
		return text + ": " + firstLine(s.o.Problems[0])
	}
	return text
}

// refused: the API has not taken the objects for that long. Where others keep a
// field, people decide.
func (s *step) refused() bool {
	return !s.o.Applied && !s.o.Stale && !s.c.Paused && len(s.o.Conflicts) == 0 && len(s.o.Problems) > 0 && s.late()
}

func (s *step) complete() {
	again := s.st.Ran == s.rel.Number
	if s.rel.Number == s.c.Wanted.Number {
		s.st.Ran, s.st.Parked, s.st.ParkedWhy = s.rel.Number, 0, ""
	}
	cause := fmt.Sprintf("release %d runs, pods: %d", s.rel.Number, s.o.Ready)
	if again {
		cause = fmt.Sprintf("release %d runs again, pods: %d", s.rel.Number, s.o.Ready)
	}
	s.tell(mesh.EventEntriesRolled, mesh.Info, cause, "")
}

// failed parks a release that never ran. One that did is of the same pods as
// before, or is what was put back: there is nothing better, and people are told.
func (s *step) failed() {
	why := s.why()
	if s.rel.Number != s.c.Wanted.Number || s.st.Ran == s.rel.Number {
		s.st.Problems = append(s.st.Problems, fmt.Sprintf("release %d ran before and does not now: %s", s.rel.Number, firstLine(why)))
		return
	}
	if s.st.Parked == s.rel.Number {
		s.st.ParkedWhy = why
		return
	}
	s.st.Parked, s.st.ParkedWhy = s.rel.Number, why
	then := "nothing that ran before it is known, so it stays as it is"
	if back := s.c.Ordered(s.st); back.Number != s.rel.Number {
		then = fmt.Sprintf("release %d is put back", back.Number)
	}
	s.tell(mesh.EventEntriesRolledBack, mesh.Warning, fmt.Sprintf("release %d failed: %s; %s", s.rel.Number, firstLine(why), then),
		"meshctl admin entry status says more; mend it and deploy again")
}

// why is what keeps the pods from being ready.
func (s *step) why() string {
	switch {
	case s.o.Why != "":
		return s.o.Why
	case len(s.o.Problems) > 0:
		return strings.Join(s.o.Problems[:min(len(s.o.Problems), 3)], "\n")
	}
	return "the pods made no progress"
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (s *step) tell(what mesh.EventType, how mesh.Severity, cause, advice string) {
	s.events = append(s.events, mesh.Event{Time: s.now, Type: what, Severity: how, Object: object(s.c.ID), Cause: cause, Advice: advice})
}
