package backups

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// proofTime bounds one proof.
const proofTime = 15 * time.Minute

// Scratch runs use on an etcd of its own in dir, which is empty and goes away
// afterwards.
type Scratch func(ctx context.Context, dir string, use func(context.Context, *store.Store) error) error

// Prove restores what a remote holds into an etcd of its own and compares it,
// object by object, with what the store had.
func (s *Service) Prove(ctx context.Context, p chores.BackupProof, tree backup.Tree) {
	t, err := s.current(p.Epoch)
	if err != nil {
		return // whoever leads now proves
	}
	s.proving.Lock() // the one before was called off, and is about to end
	defer s.proving.Unlock()
	s.mu.Lock()
	asked := t.asked
	s.mu.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	objects, err := s.prove(ctx, t, tree)
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return // the office or the child is gone: it says nothing about the backup
	}
	result := mesh.BackupProofState{Commit: p.Commit, At: s.now(), Took: mesh.Duration(time.Since(began)), Objects: objects}
	if err != nil {
		result.Problem = mesh.Plain(err)
		s.Log.Error("backup not proven", "remote", p.Remote, "commit", p.Commit, "err", err)
	} else {
		s.Log.Info("backup proven", "remote", p.Remote, "commit", p.Commit, "count", objects, "took", time.Since(began).Round(time.Millisecond))
	}
	s.set(func() {
		t.state.Proof, t.state.Verified = result, max(t.state.Verified, asked)
	})
	t.touch()
}

// prove returns how many objects are equal.
func (s *Service) prove(ctx context.Context, t *term, tree backup.Tree) (equal int, err error) {
	defer recovered(&err)
	state, err := s.read(ctx, t, tree)
	if err != nil {
		return 0, err
	}
	have, at, err := s.have(ctx, store.Rev(state.Revision))
	if err != nil {
		return 0, err
	}
	dir := s.proofFolder()
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, fmt.Errorf("backups: proof: %w", err)
	}
	var restored []store.Raw
	err = s.Scratch(ctx, dir, func(ctx context.Context, st *store.Store) error {
		if err := st.Import(ctx, Raws(state), nil); err != nil {
			return err
		}
		restored, _, err = st.Export(ctx, 0)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("backups: restore into an etcd of its own: %w", err)
	}
	problem, equal := compare(have, restored, at)
	if problem != "" {
		return equal, fmt.Errorf("backups: %s: %w", problem, mesh.ErrConflict)
	}
	return equal, nil
}

// read verifies and decrypts what the remote holds, with the mesh's own key.
func (s *Service) read(ctx context.Context, t *term, tree backup.Tree) (*backup.State, error) {
	s.mu.Lock()
	set := t.set
	s.mu.Unlock()
	if len(set.Recipients) == 0 {
		return nil, mesh.WithHint(fmt.Errorf("backups: nothing private is in the backup, since it has no recipients: it restores no mesh: %w", mesh.ErrConflict),
			"meshctl admin backup recipient new NAME --out FILE")
	}
	text, err := s.open(store.BackupVerifyPlace(), set.VerifyIdentity)
	if err != nil {
		return nil, err
	}
	ids, err := backup.ParseIdentities([]byte(text.Reveal()), nil)
	if err != nil {
		return nil, err
	}
	return backup.Read(ctx, tree, ids, backup.ReadOptions{Root: sha256.Sum256(s.Root), Mesh: s.Mesh})
}

// have is what the store had at the moment of the backup. When that is no longer
// kept it is what the store has now, and at is that moment.
func (s *Service) have(ctx context.Context, rev store.Rev) (have []store.Raw, at store.Rev, err error) {
	have, _, err = s.Store.Export(ctx, rev)
	if errors.Is(err, store.ErrCompacted) {
		have, _, err = s.Store.Export(ctx, 0)
		at = rev
	}
	return have, at, err
}

// Raws are the objects of a backup in the form of the store.
func Raws(state *backup.State) []store.Raw {
	out := make([]store.Raw, 0, len(state.Objects))
	for _, o := range state.Objects {
		out = append(out, store.Raw{Folder: o.Folder, ID: o.ID, Value: o.JSON})
	}
	return out
}
