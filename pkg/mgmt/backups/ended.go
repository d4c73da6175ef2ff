package backups

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Ended takes note of how a round of the child went.
func (s *Service) Ended(out chores.BackupOutcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.term
	if t == nil {
		return
	}
	s.metric().ended(out)
	now := s.now()
	t.ended, t.waits = max(t.ended, out.Due), now
	if out.Commit != "" && out.Revision >= t.state.Revision {
		if out.Committed {
			t.state.Committed = now
		}
		t.state.Commit, t.state.Revision = out.Commit, out.Revision
	}
	if out.Recloned {
		s.Log.Warn("damaged clone of backups begun anew")
	}
	for _, r := range out.Remotes {
		if st := t.remote(r.Name); st != nil {
			s.noteRemote(st, r, out.Failure)
		}
	}
	if out.Failure != "" {
		for i := range t.state.Remotes {
			if !slices.ContainsFunc(out.Remotes, func(r chores.RemoteOutcome) bool { return r.Name == t.state.Remotes[i].Name }) {
				s.noteRemote(&t.state.Remotes[i], chores.RemoteOutcome{Name: t.state.Remotes[i].Name, Failure: out.Failure}, "")
			}
		}
	}
	if t.ranDue != 0 && out.Due >= t.ranDue && out.Failure == "" {
		t.state.Ran = max(t.state.Ran, t.ran)
	}
	if p := out.Proof; p != nil && p.Failure != "" {
		t.state.Proof = mesh.BackupProofState{Commit: p.Commit, At: now, Problem: "a fresh clone of remote " + p.Remote + ": " + p.Failure.Text()}
		t.state.Verified = max(t.state.Verified, t.asked)
	}
	t.touch()
}

// noteRemote notes how one remote was left. whole is why the round as such
// failed. Callers hold mu.
func (s *Service) noteRemote(st *mesh.BackupRemoteState, r chores.RemoteOutcome, whole chores.BackupFailure) {
	now := s.now()
	failure := r.Failure
	if failure == "" {
		failure = whole
	}
	if r.Head != "" {
		st.Head = r.Head
	}
	if r.Conflict != "" {
		st.Conflict = r.Conflict
	}
	if failure == "" {
		if st.Failures > 0 {
			s.Log.Info("backups reach the remote again", "remote", r.Name, "count", st.Failures)
		}
		st.Pushed, st.Failures, st.Reason = now, 0, ""
		return
	}
	if st.Failures == 0 {
		s.Log.Warn("backup not pushed", "remote", r.Name, "reason", string(failure))
	}
	st.Failures++
	st.Failed, st.Reason = now, failure.Text()
	if r.HostKey != "" {
		st.Reason += ": " + r.HostKey
	}
}

// touch has the state written soon.
func (t *term) touch() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// write writes the state, and events about what has changed in it, if that is
// what the store does not have.
func (s *Service) write(ctx context.Context, t *term) error {
	s.mu.Lock()
	state, set, alarms := t.state, t.set, t.alarms
	state.Remotes = slices.Clone(state.Remotes)
	s.mu.Unlock()
	events, next := alarms.judge(state, set)
	if len(events) == 0 && reflect.DeepEqual(state, t.wrote) {
		return nil
	}
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		err := store.Update(tx, s.Store.BackupState, store.BackupStateKey, func(b *mesh.BackupState) error {
			*b = state
			return nil
		})
		if errors.Is(err, mesh.ErrNotFound) {
			err = store.Create(tx, s.Store.BackupState, store.BackupStateKey, state)
		}
		for _, e := range events {
			if err == nil {
				err = tx.Event(e)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	t.wrote = state
	s.set(func() { t.alarms = next })
	return nil
}
