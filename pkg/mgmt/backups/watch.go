package backups

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// actor is who changes what backups need for themselves.
const actor mesh.Actor = "system:backups"

// again is how long after a proof that failed the next one is made, at most.
const again = 10 * time.Minute

// watch looks for what there is to do, and writes the state, until ctx ends.
func (s *Service) watch(ctx context.Context, t *term) {
	tick := time.NewTicker(s.poll())
	defer tick.Stop()
	for {
		if err := s.look(ctx, t); err != nil && ctx.Err() == nil {
			s.hold(t, err)
		}
		if err := s.write(ctx, t); err != nil && ctx.Err() == nil {
			s.Log.Warn("state of backups not written", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-t.changed:
		}
	}
}

// look reads the settings and what has changed, and makes the order of it.
func (s *Service) look(ctx context.Context, t *term) error {
	set, err := s.settings(ctx)
	if err != nil {
		return err
	}
	order, err := s.order(t, set)
	if err != nil {
		return err
	}
	s.mu.Lock()
	seen := t.seen
	s.mu.Unlock()
	changed, rev, err := s.Store.ChangedSince(ctx, seen)
	if err != nil {
		return err
	}
	s.set(func() {
		t.set = set
		t.state.Held = t.overdue(s.now())
		t.keepRemotes()
		before, was := t.order, [2]uint64{t.due, t.prove}
		t.order = order
		if order != nil {
			t.raise(s.now(), changed, rev)
			t.ask(s.now())
		}
		if was != [2]uint64{t.due, t.prove} || !reflect.DeepEqual(before, order) {
			s.Wake()
		}
	})
	return nil
}

// overdueAfter is how long a round may take in which nothing is pushed.
const overdueAfter = 15 * time.Minute

// overdue says that the child has not ended what it was ordered long ago, "" when
// it has. Callers hold mu.
func (t *term) overdue(now time.Time) string {
	if t.order == nil || t.ended >= t.due || now.Sub(t.waits) < overdueAfter {
		return ""
	}
	return "no round has ended since " + t.waits.Format(time.RFC3339)
}

// hold notes why there is no order. What was ordered goes on.
func (s *Service) hold(t *term, err error) {
	why := mesh.Plain(err)
	s.set(func() {
		if t.state.Held != why {
			s.Log.Warn("backups held back", "err", err)
		}
		t.state.Held = why
	})
}

// settings reads them, and makes the key with which proofs decrypt when there is
// none yet and somebody else can read the backup too.
func (s *Service) settings(ctx context.Context) (mesh.BackupSettings, error) {
	it, err := s.Store.Backup.Get(ctx, store.BackupKey)
	if errors.Is(err, mesh.ErrNotFound) {
		return mesh.BackupSettings{}.WithDefaults(), nil
	}
	if err != nil {
		return mesh.BackupSettings{}, err
	}
	set := it.Value
	if len(set.Recipients) > 0 && set.VerifyRecipient == "" {
		if set, err = s.makeVerifyKey(ctx); err != nil {
			return set, err
		}
	}
	return set.WithDefaults(), nil
}

func (s *Service) makeVerifyKey(ctx context.Context) (set mesh.BackupSettings, err error) {
	defer s.Store.Sealing()()
	recipient, identity, err := backup.NewVerifyIdentity()
	if err != nil {
		return set, err
	}
	sealed, err := s.Store.Seal(store.BackupVerifyPlace(), identity)
	if err != nil {
		return set, err
	}
	_, err = s.Store.Change(ctx, store.By{Actor: actor}, "backup.verify-key.make", func(tx *store.Tx) error {
		return store.Update(tx, s.Store.Backup, store.BackupKey, func(b *mesh.BackupSettings) error {
			if b.VerifyRecipient == "" {
				b.VerifyRecipient, b.VerifyIdentity = recipient, sealed
			}
			set = *b
			return nil
		})
	})
	return set, err
}

// order is what the settings ask for, without Due and Prove; nil without remotes.
func (s *Service) order(t *term, set mesh.BackupSettings) (*chores.BackupOrder, error) {
	if len(set.Remotes) == 0 {
		return nil, nil
	}
	o := &chores.BackupOrder{
		Mesh: s.Mesh, Root: s.Root, Folder: filepath.Join(s.Folder, "clone"), Epoch: t.epoch, Heartbeat: time.Duration(set.Heartbeat),
	}
	for _, r := range set.Remotes {
		secret, err := s.open(store.BackupRemotePlace(r.Name), r.Credential)
		if err != nil {
			return nil, fmt.Errorf("backups: remote %s: %w", r.Name, err)
		}
		o.Remotes = append(o.Remotes, chores.BackupRemote{
			Name: r.Name, URL: r.URL, Branch: r.Branch, User: r.User, KnownHosts: r.KnownHosts, Auth: r.Auth, Credential: secret,
		})
	}
	var err error
	if o.SignKey, err = s.open(store.BackupSignPlace(), set.SignKey); err != nil {
		return nil, fmt.Errorf("backups: key that signs commits: %w", err)
	}
	return o, nil
}

// open unseals a field that may be empty.
func (s *Service) open(place string, sealed mesh.Sealed) (mesh.Secret, error) {
	if sealed == "" {
		return "", nil
	}
	return s.Store.Unseal(place, sealed)
}

// raise asks for a commit when one may be needed: at the start, when somebody
// asks, and when something has changed, but not too often. Callers hold mu.
func (t *term) raise(now time.Time, changed bool, rev store.Rev) {
	asked := t.set.Run > max(t.ran, t.state.Ran)
	waited := now.Sub(t.rose) >= time.Duration(t.set.Every)
	if t.due > 0 && !asked && (!waited || !changed && now.Sub(t.totalsAt) < time.Duration(t.set.TotalsEvery)) {
		return
	}
	if t.ended == t.due {
		t.waits = now
	}
	t.due++
	t.rose, t.seen = now, rev
	if asked {
		t.ran, t.ranDue = t.set.Run, t.due
	}
}

// ask has what the remotes hold proven: when it never was, when somebody asks,
// and every so often when it is another commit or the last proof failed. Callers
// hold mu.
func (t *term) ask(now time.Time) {
	head := t.head()
	if head == "" {
		return // nothing to prove yet
	}
	every, last := time.Duration(t.set.ProveEvery), t.state.Proof
	if last.Problem != "" {
		every = min(every, again)
	}
	wanted := t.set.Verify > max(t.asked, t.state.Verified)
	fresh := t.prove == 0 && last.At.IsZero()
	due := (last.Commit != head || last.Problem != "") && now.Sub(t.proven) >= every && passed(now, last.At, every)
	if !wanted && !fresh && !due {
		return
	}
	t.prove++
	t.proven, t.asked = now, max(t.asked, t.set.Verify)
}

// passed says whether that long has gone by since a time in the store. A time that
// far ahead is one of a server whose clock was wrong, and holds nothing up.
func passed(now, since time.Time, long time.Duration) bool { return now.Sub(since).Abs() >= long }

// head is what some remote holds, "" before any holds a backup.
func (t *term) head() string {
	for _, r := range t.state.Remotes {
		if r.Head != "" && r.Head == t.state.Commit {
			return r.Head
		}
	}
	return ""
}

// keepRemotes has a state for each remote of the settings and no other. Callers
// hold mu.
func (t *term) keepRemotes() {
	var out []mesh.BackupRemoteState
	for _, r := range t.set.Remotes {
		st := t.state.Remote(r.Name)
		if st.Conflict == r.Settled {
			st.Conflict = "" // somebody has looked at it
		}
		out = append(out, st)
	}
	t.state.Remotes = out
}

// remote is the state of one, nil when it is in the settings no more.
func (t *term) remote(name string) *mesh.BackupRemoteState {
	i := slices.IndexFunc(t.state.Remotes, func(r mesh.BackupRemoteState) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &t.state.Remotes[i]
}
