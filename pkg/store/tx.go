package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// maxOps bounds the operations and, apart, the comparisons of a transaction;
// etcd takes 128 of each.
const maxOps = 100

// pendingRev is the moment of what this transaction is about to write: later
// than everything that can have been acknowledged.
const pendingRev = Rev(math.MaxInt64)

// Tx is one attempt at a transaction. What it reads is of one moment and sees
// its own writes. It belongs to the function it was given to and must not be
// used after that returned, nor by two goroutines.
//
// What was read by key is compared at commit. What was listed is compared as a
// range, which notices every object written since; deletions leave nothing in
// the range, so each rewrites a key of its folder that lists compare too.
type Tx struct {
	s      *Store
	mode   mode
	stamp  string                           // unique to the transaction, the same for all attempts
	fence  *fence                           // of the office under which it is made; nil: none
	lease  func() (clientv3.LeaseID, error) // for events
	fetch  func(key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error)
	pages  func(prefix string, at Rev) ([]entry, Rev, error)
	rev    Rev // of all reads; 0 before the first
	reads  map[string]entry
	spans  map[string]*span
	writes map[string]write
	must   map[string]bool // keys to compare
	routes *planner        // decoded cores and acknowledgements, made when asked for
	seen   []string        // objects that Accessed named
	also   []clientv3.Cmp  // further conditions, which never hold again once they do not
}

type mode int

const (
	viewing  mode = iota // no writes
	deriving             // derived kinds
	auditing             // everything, with an audit record
)

// span is a folder that was listed.
type span struct {
	entries []entry
	at      map[string]int
	compare bool
}

type write struct {
	data   []byte           // nil: delete
	object *kind            // whose audit shows it; nil: not shown
	lease  clientv3.LeaseID // 0: none
}

func (s *Store) begin(ctx context.Context, m mode, stamp string) *Tx {
	return &Tx{
		s: s, mode: m, stamp: stamp, fence: fenceOf(ctx),
		fetch: func(key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
			return s.get(ctx, key, opts...)
		},
		lease: func() (clientv3.LeaseID, error) { return s.eventLease(ctx, time.Now()) },
		pages: func(prefix string, at Rev) ([]entry, Rev, error) { return s.list(ctx, prefix, at) },
		reads: map[string]entry{}, spans: map[string]*span{}, writes: map[string]write{}, must: map[string]bool{},
	}
}

// read returns key as the transaction sees it. compare makes the commit depend
// on it.
func (tx *Tx) read(key string, compare bool) (entry, error) {
	e, err := tx.stored(key)
	if err != nil {
		return e, err
	}
	if compare {
		tx.must[key] = true
	}
	if w, ok := tx.writes[key]; ok {
		return w.entry(key), nil
	}
	return e, nil
}

func (w write) entry(key string) entry {
	if w.data == nil {
		return entry{key: key}
	}
	return entry{key: key, data: w.data, rev: pendingRev}
}

// stored returns key as it was before the transaction.
func (tx *Tx) stored(key string) (entry, error) {
	if e, ok := tx.reads[key]; ok {
		return e, nil
	}
	for prefix, sp := range tx.spans {
		if strings.HasPrefix(key, prefix) {
			return sp.find(key), nil
		}
	}
	var opts []clientv3.OpOption
	if tx.rev != 0 {
		opts = append(opts, clientv3.WithRev(int64(tx.rev)))
	}
	resp, err := tx.fetch(key, opts...)
	if err != nil {
		return entry{}, tx.translate("read "+strings.TrimPrefix(key, root), err)
	}
	if tx.rev == 0 {
		tx.rev = Rev(resp.Header.Revision)
	}
	e := entry{key: key}
	if len(resp.Kvs) > 0 {
		e.data, e.rev = resp.Kvs[0].Value, Rev(resp.Kvs[0].ModRevision)
	}
	tx.reads[key] = e
	return e, nil
}

func (sp *span) find(key string) entry {
	if i, ok := sp.at[key]; ok {
		return sp.entries[i]
	}
	return entry{key: key}
}

// list returns all keys under prefix, in order, as the transaction sees them.
func (tx *Tx) list(prefix string, compare bool) ([]entry, error) {
	sp := tx.spans[prefix]
	if sp == nil {
		entries, rev, err := tx.pages(prefix, tx.rev)
		if err != nil {
			return nil, tx.translate("list "+strings.TrimPrefix(prefix, root), err)
		}
		tx.rev = rev
		sp = &span{entries: entries, at: make(map[string]int, len(entries))}
		for i, e := range entries {
			sp.at[e.key] = i
		}
		tx.spans[prefix] = sp
	}
	sp.compare = sp.compare || compare
	return tx.overlay(prefix, sp.entries), nil
}

// overlay adds the transaction's own writes to what was listed.
func (tx *Tx) overlay(prefix string, entries []entry) []entry {
	own := map[string]write{}
	for k, w := range tx.writes {
		if strings.HasPrefix(k, prefix) {
			own[k] = w
		}
	}
	if len(own) == 0 {
		return entries
	}
	out := make([]entry, 0, len(entries)+len(own))
	for _, e := range entries {
		if _, ok := own[e.key]; !ok {
			out = append(out, e)
		}
	}
	for k, w := range own {
		if w.data != nil {
			out = append(out, w.entry(k))
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	return out
}

// put writes key, which must have been read with compare.
func (tx *Tx) put(key string, data []byte, object *kind) {
	tx.writes[key] = write{data: data, object: object}
	if f := folderOf(key); f == folderCores || f == folderStatus || f == folderCells {
		tx.routes = nil
	}
}

// errStale: the revision that the attempt reads at is gone; begin again.
var errStale = fmt.Errorf("store: the transaction took too long: %w", mesh.ErrConflict)

func (tx *Tx) translate(what string, err error) error {
	if wrapped := wrap(what, err); !isCompacted(wrapped) {
		return wrapped
	}
	return errStale
}

// compares are the conditions under which what was read still holds. Once one of
// them does not, it never does again, or a try that etcd makes late could follow
// a refusal: revisions do not come back, but a key that was made and deleted
// meanwhile is absent as before, so absence goes with the folder's deletions.
func (tx *Tx) compares() []clientv3.Cmp {
	var out []clientv3.Cmp
	next := int64(tx.rev) + 1
	undeleted := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(tx.must)) {
		e, err := tx.stored(key) // in memory, since it was read
		if err != nil {
			continue
		}
		out = append(out, clientv3.Compare(clientv3.ModRevision(key), "=", int64(e.rev)))
		if e.rev == 0 {
			undeleted[folderOf(key)] = true
		}
	}
	for _, prefix := range slices.Sorted(maps.Keys(tx.spans)) {
		if tx.spans[prefix].compare {
			out = append(out, clientv3.Compare(clientv3.ModRevision(prefix), "<", next).WithPrefix())
			undeleted[folderOf(prefix)] = true
		}
	}
	for _, f := range slices.Sorted(maps.Keys(undeleted)) {
		out = append(out, clientv3.Compare(clientv3.ModRevision(deletionKey(f)), "<", next))
	}
	return out
}

// deletionMark is the value of changed and of a key under deletions/, whose
// revisions are what counts.
const deletionMark = `{"schema":1,"minReader":1}`

// ops are the writes, in order of key.
func (tx *Tx) ops() []clientv3.Op {
	var out []clientv3.Op
	marks, portable := map[string]bool{}, false
	for _, key := range slices.Sorted(maps.Keys(tx.writes)) {
		w := tx.writes[key]
		was, _ := tx.stored(key) // in memory, since it was read
		portable = portable || marksChange(folderOf(key))
		switch {
		case w.data != nil:
			out = append(out, clientv3.OpPut(key, string(w.data), clientv3.WithLease(w.lease)))
		case was.rev != 0:
			out = append(out, clientv3.OpDelete(key))
			marks[folderOf(key)] = true
		}
	}
	for _, f := range slices.Sorted(maps.Keys(marks)) {
		out = append(out, clientv3.OpPut(deletionKey(f), deletionMark))
	}
	if portable {
		out = append(out, clientv3.OpPut(changedKey, deletionMark))
	}
	return out
}

// Event records something worth telling people about, in the same etcd
// transaction, under a lease. An empty ID and a zero Time are filled in.
func (tx *Tx) Event(e mesh.Event) error {
	if tx.mode == viewing {
		return errReadOnly
	}
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	if e.ID == "" {
		e.ID = NewTimeID(e.Time)
	}
	key, err := keyOf(folderEvents, e.ID)
	if err != nil {
		return err
	}
	data, err := codec.Encode(e)
	if err != nil {
		return fmt.Errorf("store: record event: %w", err)
	}
	lease, err := tx.lease()
	if err != nil {
		return err
	}
	tx.reads[key] = entry{key: key} // fresh by its random digits
	tx.writes[key] = write{data: data, lease: lease}
	return nil
}

var errReadOnly = fmt.Errorf("store: a view does not write: %w", mesh.ErrInvalid)

func isCompacted(err error) bool { return errors.Is(err, ErrCompacted) }
