package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	defaultRolloutWait = 30 * time.Minute
	// policyWait is how long pods that are ready may take to say whether they reach
	// what they may not.
	policyWait = 30 * time.Second
	// heldFor is how long a release is held back before nobody waits for it any more:
	// what is passing has passed by then.
	heldFor = 3 * time.Second
)

// waitFlags say how long a command looks on.
type waitFlags struct {
	none bool
	most time.Duration
}

func (w *waitFlags) flags(c *cobra.Command) {
	c.Flags().BoolVar(&w.none, "no-wait", false, "do not wait until it is done")
	c.Flags().DurationVar(&w.most, "wait", defaultRolloutWait, "how long to wait until it is done")
	c.MarkFlagsMutuallyExclusive("wait", "no-wait")
	c.PreRunE = func(*cobra.Command, []string) error { // before anything is changed
		if w.most <= 0 {
			return usagef("--wait %v: want a time above 0", w.most).hint("--no-wait does not wait at all")
		}
		return nil
	}
}

// step is how far something is: a line for people, and whether that was all.
type step struct {
	line string
	done bool
	err  error // it will not be done
	held error // the same, when it stays so for heldFor
}

// deploy makes a release, and looks on until it is there.
func (w *waitFlags) deploy(ctx context.Context, s *adminSession, d deployable, why string) error {
	v, err := ask(ctx, s, admin.EntryDeploy, d.request(why))
	if err != nil {
		return err
	}
	if v.Note != "" {
		if err := s.say("%s", clean(v.Note)); err != nil {
			return err
		}
	}
	if v.Wanted.Number == d.cluster.Wanted.Number {
		if err := s.say("cluster %s is to be so already, as release %d", clean(v.Name), v.Wanted.Number); err != nil {
			return err
		}
	}
	return w.rolled(ctx, s, v)
}

// rolled looks on until the release that is wanted is there, and says how it went.
func (w *waitFlags) rolled(ctx context.Context, s *adminSession, v admin.KubeView) error {
	number := v.Wanted.Number
	v, err := w.until(ctx, s, v, func(v admin.KubeView) step { return rolloutStep(v, number) })
	if err != nil {
		return err
	}
	if w.none || v.Paused {
		return changed(s, kubeNoun(), v, fmt.Sprintf("is to run release %d", number))
	}
	v, open := w.policy(ctx, s, v)
	if err := changed(s, kubeNoun(), v, fmt.Sprintf("runs release %d", number)); err != nil {
		return err
	}
	if err := sayAddresses(s, v); err != nil {
		return err
	}
	for _, text := range append(remains(v), open) {
		if text == "" {
			continue
		}
		if _, err := fmt.Fprintln(s.err(), "warning:", text); err != nil {
			return err
		}
	}
	return nil
}

// remains is what is not as it should be although a release runs.
func remains(v admin.KubeView) []string {
	if v.State == nil {
		return nil
	}
	var out []string
	for _, x := range v.State.Conflicts {
		out = append(out, conflictText(x))
	}
	for _, p := range v.State.Problems {
		out = append(out, clean(p))
	}
	return out
}

// until looks at a cluster until a step says that it is done. It says each step
// once.
func (w *waitFlags) until(ctx context.Context, s *adminSession, v admin.KubeView, next func(admin.KubeView) step) (admin.KubeView, error) {
	if w.none {
		return v, nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.most)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var since time.Time // that it is held back
	for last := ""; ; {
		st := next(v)
		if st.line != "" && st.line != last {
			if err := s.say("%s", st.line); err != nil {
				return v, err
			}
			last = st.line
		}
		switch {
		case st.err != nil || st.done:
			return v, st.err
		case st.held == nil:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= heldFor:
			return v, st.held
		}
		var err error
		if v, err = w.look(ctx, s, v, tick.C); err != nil {
			return v, stillGoing(ctx, v, w.most, last, err)
		}
	}
}

// look waits for the next tick and reads the cluster again. A server that does not
// answer is asked again, as when it is replaced meanwhile.
func (w *waitFlags) look(ctx context.Context, s *adminSession, v admin.KubeView, tick <-chan time.Time) (admin.KubeView, error) {
	select {
	case <-ctx.Done():
		return v, ctx.Err()
	case <-tick:
	}
	now, err := ask(ctx, s, admin.KubeLook, admin.Ref{Ref: string(v.ID)})
	if ctx.Err() != nil {
		return v, ctx.Err()
	}
	if mesh.Kind(err) == mesh.ErrUnavailable {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	s.now = time.Now()
	return now, nil
}

// stillGoing is why nobody looks on any more.
func stillGoing(ctx context.Context, v admin.KubeView, most time.Duration, last string, err error) error {
	hint := "it goes on without you; look on: meshctl admin entry rollout status --cluster " + v.Name
	if v.Removing {
		hint = "it goes on without you; look at it: meshctl admin entry status " + v.Name
	}
	switch context.Cause(ctx) {
	case nil:
		return err
	case context.DeadlineExceeded:
		err = fmt.Errorf("cluster %s: not done within %v; at last: %s: %w", clean(v.Name), most, orText(last, "nothing is known"), mesh.ErrUnavailable)
	}
	return mesh.WithHint(err, hint)
}

// rolloutStep is how far a release is.
func rolloutStep(v admin.KubeView, number int64) step {
	st := v.State
	switch {
	case v.Removing:
		return step{err: fmt.Errorf("cluster %s: its entries are being taken away: %w", clean(v.Name), mesh.ErrConflict)}
	case v.Wanted.Number != number:
		return step{err: fmt.Errorf("cluster %s: somebody made release %d meanwhile: %w", clean(v.Name), v.Wanted.Number, mesh.ErrConflict)}
	case st == nil:
		return step{line: fmt.Sprintf("release %d: nobody has looked at the cluster yet", number)}
	case st.Parked == number:
		return step{err: failedRelease(v)}
	case st.Contact != "":
		return step{line: fmt.Sprintf("release %d: the cluster's API: %s", number, joined(st.Contact, st.Detail))}
	case v.Paused:
		return step{line: fmt.Sprintf("release %d: paused; meshctl admin entry rollout resume --cluster %s", number, clean(v.Name)), done: true}
	case st.Rollout.Release != number:
		return step{line: fmt.Sprintf("release %d: not begun", number)}
	}
	line := fmt.Sprintf("release %d: %s", number, rolloutText(st.Rollout))
	if st.Rollout.Phase == mesh.KubeLacking {
		return step{err: mesh.WithHint(fmt.Errorf("cluster %s: release %d: %s", clean(v.Name), number, clean(st.Lacking)),
			"nothing is put back: those that are there serve; give the others room, or scale down")}
	}
	if st.Rollout.Phase == mesh.KubeFailed {
		return step{err: fmt.Errorf("cluster %s: %s%s", clean(v.Name), line, hindered(*st))}
	}
	if st.Rollout.Phase != mesh.KubeComplete {
		line += hindered(*st)
	}
	if st.Rollout.Phase == mesh.KubeComplete {
		return step{line: line, done: true}
	}
	return step{line: line, held: held(v)}
}

// rolloutText is "rolling: 1 of 3 updated, 1 ready, 2 old".
func rolloutText(r mesh.KubeRollout) string {
	text := fmt.Sprintf("%s: %d of %d updated, %d ready", r.Phase, r.Updated, r.Desired, r.Ready)
	if r.Old > 0 {
		text += fmt.Sprintf(", %d old", r.Old)
	}
	return text
}

// hindered is the first thing that may keep a release from being there.
func hindered(st mesh.KubeState) string {
	for _, x := range st.Conflicts {
		return "; conflict: " + conflictText(x)
	}
	for _, p := range st.Problems {
		return "; " + clean(p)
	}
	for _, p := range st.Pods {
		if !p.Ready && !p.Ending && p.Reason != "" {
			return fmt.Sprintf("; pod %s: %s", clean(p.Name), clean(p.Reason))
		}
	}
	return ""
}

// failedRelease says which pod, why, and what it said last.
func failedRelease(v admin.KubeView) error {
	st := v.State
	lines := strings.Split(strings.TrimSpace(st.ParkedWhy), "\n")
	for i, l := range lines {
		lines[i] = clean(strings.TrimRight(l, "\r"))
	}
	hint := "nothing ran there before, so it stays as it is; mend it and deploy again, or: meshctl admin entry uninstall " + v.Name
	if st.Ran != 0 {
		hint = fmt.Sprintf("release %d is put back; mend what is wrong and deploy again", st.Ran)
	}
	return mesh.WithHint(fmt.Errorf("cluster %s: release %d failed: %s", clean(v.Name), st.Parked, strings.Join(lines, "\n  ")), hint)
}

// joined is "head: tail", or head alone.
func joined(head, tail string) string {
	if tail == "" {
		return clean(head)
	}
	return clean(head) + ": " + clean(tail)
}

// goneNow is how far the entries of a cluster are taken away.
func goneNow(v admin.KubeView) step {
	switch st := v.State; {
	case v.Wanted.Number == 0:
		return step{done: true}
	case !v.Removing:
		return step{err: fmt.Errorf("cluster %s: somebody deployed entries meanwhile: %w", clean(v.Name), mesh.ErrConflict)}
	case st != nil && st.Contact != "":
		return step{line: "the cluster's API: " + joined(st.Contact, st.Detail)}
	case st != nil && st.Counted().All > 0:
		return step{line: someOf(st.Counted().All, "pod") + " left"}
	}
	return step{line: "being taken away"}
}

// policy waits until the pods know whether the network keeps them from what they
// may not reach. It returns what is to be said when it does not.
func (w *waitFlags) policy(ctx context.Context, s *adminSession, v admin.KubeView) (admin.KubeView, string) {
	brief := waitFlags{most: min(policyWait, w.most)}
	known := func(v admin.KubeView) step { return step{done: v.State == nil || v.State.Policy != mesh.PolicyUnknown} }
	// Whatever ends the wait, the rollout itself is done.
	if now, err := brief.until(ctx, s, v, known); err == nil {
		v = now
	}
	if v.State == nil {
		return v, ""
	}
	return v, policyWarning(v.State.Policy)
}

func policyWarning(p mesh.KubePolicy) string {
	switch p {
	case mesh.PolicyOpen:
		return "this cluster does not enforce NetworkPolicies: a pod reached what it may not (docs/runbook/kubernetes.md)"
	case mesh.PolicyUnknown:
		return "whether the cluster enforces NetworkPolicies is not known yet: meshctl admin entry status"
	}
	return ""
}

func sayAddresses(s *adminSession, v admin.KubeView) error {
	if v.State == nil {
		return nil
	}
	for _, a := range v.State.Addresses {
		if err := s.say("  %s", addressText(a)); err != nil {
			return err
		}
	}
	if len(v.State.Addresses) == 0 {
		return s.say("  no address yet: the cluster has not said where its load balancer is")
	}
	return nil
}

// addressText is "192.0.2.1:443 answers".
func addressText(a mesh.KubeAddress) string {
	switch where := clean(a.HostPort()); {
	case a.Up:
		return where + " answers"
	case a.Tried.IsZero():
		return where + " has not been tried yet"
	default:
		return where + " does not answer: " + clean(orText(a.Why, "unknown"))
	}
}
