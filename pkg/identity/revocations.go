package identity

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxRevocations bounds what a node keeps. Records end with the last
// certificate they cover, so a mesh near it has other troubles.
const maxRevocations = 50_000

// untilSlack is how long a record outlives its end, for clocks that are off.
const untilSlack = time.Hour

// Revocations are the refusals that this process knows, kept in a file. Nil
// refuses nothing. What was once applied stays until its own end, whatever a
// later snapshot leaves out: a restored backup cannot un-revoke.
type Revocations struct {
	path  string // "" keeps them in memory only
	roots *x509.CertPool
	mesh  mesh.ID
	max   int // records
	now   func() time.Time
	step  func(string) error // tests: fail before a step of writing

	view atomic.Pointer[view] // what Check reads

	mu    sync.Mutex // guards what follows, and the file
	state revocationState

	subs watchers
}

type revocationState struct {
	epoch, revision int64
	proof           mesh.SignedEpoch // the root's word for epoch, if it was needed
	handed          int64            // last epoch in which the records were handed over
	// records are by what was signed, and not by their ids: no server can take
	// a record back by signing another under its id.
	records map[[32]byte]heldRevocation
}

type heldRevocation struct {
	mesh.Revocation
	signed mesh.SignedRevocation
}

func (h heldRevocation) key() [32]byte { return sha256.Sum256(h.signed.Payload) }

// view is an immutable index of the records.
type view struct {
	serials map[string]bool
	nodes   map[string]time.Time // refused if issued before
}

// OpenRevocations reads the file at path, or starts without one. An empty path
// keeps everything in memory. A file that is damaged is an error: to go on
// without it would admit peers that were refused yesterday.
func OpenRevocations(path string, roots *x509.CertPool, m mesh.ID) (*Revocations, error) {
	r := &Revocations{path: path, roots: roots, mesh: m, max: maxRevocations, now: time.Now}
	r.state.records = map[[32]byte]heldRevocation{}
	if path != "" {
		if err := r.load(); err != nil {
			return nil, err
		}
	}
	r.view.Store(r.state.index())
	return r, nil
}

// Apply takes what a management server sent: a snapshot, or what follows
// revision base. Records must be signed by a CA of the mesh. New records are in
// force when Apply returns even if it fails to write them to disk; the revision
// then stays, so that they are sent again. It returns ErrConflict when base is
// not the revision held: ask for a snapshot.
func (r *Revocations) Apply(snapshot bool, base, revision int64, recs []mesh.SignedRevocation) error {
	held := make([]heldRevocation, 0, len(recs))
	for _, s := range recs {
		rec, err := VerifyRevocation(r.roots, s)
		if err != nil {
			return err
		}
		held = append(held, heldRevocation{rec, s})
	}
	err := r.apply(snapshot, base, revision, held)
	r.subs.notify()
	return err
}

func (r *Revocations) apply(snapshot bool, base, revision int64, held []heldRevocation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !snapshot && base != r.state.revision {
		return fmt.Errorf("identity: apply revocations after revision %d: revision %d is held: %w", base, r.state.revision, mesh.ErrConflict)
	}
	next := r.state.with(held, r.now())
	next.forget(len(next.records) - r.max)
	if len(next.records) > r.max {
		return fmt.Errorf("identity: apply revocations: %d records, at most %d are kept: %w", len(next.records), r.max, mesh.ErrInvalid)
	}
	r.state = next
	r.view.Store(next.index())
	next.revision = revision
	if err := r.save(next); err != nil {
		return err
	}
	r.state = next
	return nil
}

// with returns a copy that also holds what is new and nothing that is over.
func (s revocationState) with(more []heldRevocation, now time.Time) revocationState {
	s.records = maps.Clone(s.records)
	for _, h := range more {
		s.records[h.key()] = h
	}
	maps.DeleteFunc(s.records, func(_ [32]byte, h heldRevocation) bool { return now.After(h.Until.Add(untilSlack)) })
	return s
}

// forget drops up to n records of what holds no certificate, the oldest first:
// they are kept for management, and must not keep out those that refuse a peer.
func (s revocationState) forget(n int) {
	if n <= 0 {
		return
	}
	var kept []heldRevocation
	for _, h := range s.records {
		if strings.HasPrefix(h.Node, mesh.ObjectDevice) || strings.HasPrefix(h.Node, mesh.ObjectMember) {
			kept = append(kept, h)
		}
	}
	slices.SortFunc(kept, func(a, b heldRevocation) int { return a.At.Compare(b.At) })
	for _, h := range kept[:min(n, len(kept))] {
		delete(s.records, h.key())
	}
}

func (s revocationState) index() *view {
	v := &view{serials: map[string]bool{}, nodes: map[string]time.Time{}}
	for _, h := range s.records {
		if h.Serial != "" {
			v.serials[h.Serial] = true
		} else if h.IssuedBefore.After(v.nodes[h.Node]) {
			v.nodes[h.Node] = h.IssuedBefore
		}
	}
	return v
}

func (s revocationState) sorted() []mesh.SignedRevocation {
	list := slices.SortedFunc(maps.Values(s.records), func(a, b heldRevocation) int { return cmp.Compare(a.ID, b.ID) })
	out := make([]mesh.SignedRevocation, len(list))
	for i, h := range list {
		out[i] = h.signed
	}
	return out
}

// Check returns ErrDenied when p, or a CA in its chain, is revoked.
func (r *Revocations) Check(p Peer) error {
	if r == nil {
		return nil
	}
	v := r.view.Load()
	refused := v.serials[p.Serial] || p.Issued.Before(v.nodes[p.Node()]) ||
		slices.ContainsFunc(p.Issuers, func(s string) bool { return v.serials[s] })
	if refused {
		return fmt.Errorf("identity: check certificate %s of %s: it is revoked: %w", p.Serial, p.Node(), mesh.ErrDenied)
	}
	return nil
}

// Revision is that of the last Apply that was kept; 0 before any.
func (r *Revocations) Revision() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.revision
}

// Len is how many records are held.
func (r *Revocations) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.state.records)
}
