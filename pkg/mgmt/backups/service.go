// Package backups is a management server's side of backups: it says when one is
// due, draws it up, encrypts and signs it, proves that it restores, and raises
// the alarm when any of that does not go well. The Git is the child's, which
// sees nothing that the repository does not.
//
//	Lead ── every second: settings, has anything changed? ──▶ Order (due, prove)
//	Draft ◀─ child       Export, encrypt, sign
//	Allow ◀─ child       a quorum confirms the office
//	Prove ◀─ child       read, restore into an etcd of its own, compare
//	Ended ◀─ child       state, events
//
// Only the holder of the office does any of it, and everything it writes carries
// the epoch of the office.
package backups

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

var _ chores.Backup = (*Service)(nil)

// Service implements chores.Backup. Set the fields, then use it.
type Service struct {
	Store  *store.Store
	Mesh   mesh.ID
	Server mesh.ServerID
	Office string // under which Lead is called
	Folder string // of this server's own, for clones and proofs
	Root   []byte // certificate of the root, DER
	// Epoch is the mesh's.
	Epoch func() int64
	// Keys are what a restored mesh needs beside its objects.
	Keys func() backup.Keys
	// Certify certifies the key that signs backups (ca.Authority.IssueBackup).
	Certify func(pub crypto.PublicKey, now time.Time) ([][]byte, error)
	// Scratch is an etcd for proofs.
	Scratch Scratch
	// Wake has the order asked for.
	Wake func()
	Log  *slog.Logger

	// Poll is how often it looks for changes; 0 is a second.
	Poll time.Duration

	once    sync.Once
	metrics *metrics
	proving sync.Mutex // held by the one proof that is under way
	mu      sync.Mutex // guards what is below
	term    *term      // nil: this server does not lead
	signer  *signer    // kept from term to term
}

// term is one time in the office.
type term struct {
	epoch chores.BackupEpoch
	order *chores.BackupOrder // without Due and Prove; nil: nothing is to be done
	set   mesh.BackupSettings // with the defaults
	state mesh.BackupState

	due, prove uint64      // of the order
	rose       time.Time   // when due was raised last
	ended      uint64      // the due of the last round that ended
	waits      time.Time   // since when a later one is due
	seen       store.Rev   // of the store when it was
	ran        uint64      // settings.Run when due was raised last, and
	ranDue     uint64      // the due of that
	asked      uint64      // settings.Verify when prove was raised last
	proven     time.Time   // when prove was raised last
	totals     []store.Raw // traffic totals as they were drawn up last
	totalsAt   time.Time   // when that was

	wrote   mesh.BackupState // as it is in the store
	changed chan struct{}    // full: there is something to write
	alarms  alarms
}

// Lead watches for what there is to do until ctx ends.
func (s *Service) Lead(ctx context.Context) error {
	t := &term{epoch: chores.BackupEpoch{Mesh: s.Epoch(), Leader: store.Epoch(ctx)}, changed: make(chan struct{}, 1)}
	state, err := s.Store.BackupState.Get(ctx, store.BackupStateKey)
	if err != nil && !errors.Is(err, mesh.ErrNotFound) {
		return fmt.Errorf("backups: read state: %w", err)
	}
	t.state, t.wrote = state.Value, state.Value
	t.alarms = alarmsOf(state.Value)
	t.state.Leader = s.Server
	if err := s.sweep(); err != nil {
		return err
	}
	s.set(func() { s.term = t })
	defer s.set(func() { s.term = nil })
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.copyOften(ctx, t) })
	s.watch(ctx, t)
	return nil
}

// sweep removes what a proof left that was cut off.
func (s *Service) sweep() error {
	if err := os.MkdirAll(s.Folder, 0o700); err != nil {
		return fmt.Errorf("backups: make folder: %w", err)
	}
	if err := os.RemoveAll(s.proofFolder()); err != nil {
		return fmt.Errorf("backups: remove an old proof: %w", err)
	}
	return nil
}

func (s *Service) proofFolder() string { return filepath.Join(s.Folder, "proof") }

func (s *Service) poll() time.Duration {
	if s.Poll == 0 {
		return time.Second
	}
	return s.Poll
}

func (s *Service) now() time.Time { return time.Now().UTC() }

func (s *Service) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Order is what the child is to do now.
func (s *Service) Order() *chores.BackupOrder {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil || s.term.order == nil {
		return nil
	}
	o := *s.term.order
	o.Due, o.Prove = s.term.due, s.term.prove
	return &o
}

// Allow says whether the office is still this server's, in that epoch.
func (s *Service) Allow(ctx context.Context, epoch chores.BackupEpoch) error {
	t, err := s.current(epoch)
	if err != nil {
		return err
	}
	err = s.Store.Holds(ctx, s.Office, t.epoch.Leader)
	if errors.Is(err, store.ErrDeposed) {
		return denied()
	}
	return err
}

// current is the term of that epoch. It returns ErrDenied when this server's is
// another.
func (s *Service) current(epoch chores.BackupEpoch) (*term, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil || s.term.epoch != epoch {
		return nil, denied()
	}
	return s.term, nil
}

func denied() error {
	return fmt.Errorf("backups: the office of that epoch is not this server's: %w", mesh.ErrDenied)
}

// signer is the key that signs backups. It is in memory alone: each server has
// one of its own, and what tells that it is good is its certificate.
type signer struct {
	key   crypto.Signer
	chain [][]byte // DER, leaf first
	until time.Time
}

// signing returns the key, made anew before its certificate is too old.
func (s *Service) signing() (*signer, error) {
	now := s.now()
	s.mu.Lock()
	have := s.signer
	s.mu.Unlock()
	if have != nil && now.Before(have.until) {
		return have, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("backups: make signing key: %w", err)
	}
	chain, err := s.Certify(key.Public(), now)
	if err != nil {
		return nil, err
	}
	made := &signer{key: key, chain: chain, until: now.Add(signerLife)}
	s.set(func() { s.signer = made })
	return made, nil
}

// signerLife is how long one key signs; certificates live for longer.
const signerLife = 24 * time.Hour
