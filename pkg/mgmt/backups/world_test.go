package backups_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/backups"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

const office = "chores"

var testActor = store.By{Actor: "local:0"}

// world is a mesh with a real etcd, and as its repository a tree in memory.
type world struct {
	t     *testing.T
	st    *store.Store
	etcd  string
	mesh  mesh.ID
	root  *ca.Root
	alice *age.X25519Identity
	tree  backup.Files // what the remote holds
	head  string
	n     int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, etcd: storetest.Etcd(t), mesh: mesh.NewID(), tree: backup.Files{}}
	w.st = storetest.Open(t, w.etcd)
	var err error
	if w.root, err = ca.NewRoot(w.mesh, time.Now()); err != nil {
		t.Fatal(err)
	}
	if w.alice, err = age.GenerateX25519Identity(); err != nil {
		t.Fatal(err)
	}
	w.settings(func(b *mesh.BackupSettings) {
		b.Recipients = []mesh.BackupRecipient{{Name: "alice", Key: w.alice.Recipient().String(), Added: time.Now()}}
		b.Remotes = []mesh.BackupRemote{{Name: "r", URL: "/nowhere", Branch: "main", Auth: mesh.BackupAuthNone}}
		b.Every = mesh.Duration(50 * time.Millisecond)
	})
	return w
}

// settings changes the settings, which it makes when there are none.
func (w *world) settings(f func(*mesh.BackupSettings)) {
	w.t.Helper()
	w.change("backup set", func(tx *store.Tx) error {
		err := store.Update(tx, w.st.Backup, store.BackupKey, func(b *mesh.BackupSettings) error { f(b); return nil })
		if errors.Is(err, mesh.ErrNotFound) {
			var b mesh.BackupSettings
			f(&b)
			err = store.Create(tx, w.st.Backup, store.BackupKey, b)
		}
		return err
	})
}

func (w *world) change(action string, f func(*store.Tx) error) {
	w.t.Helper()
	if _, err := w.st.Change(w.t.Context(), testActor, action, f); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) member(name string) mesh.MemberID {
	w.t.Helper()
	m := mesh.Member{ID: mesh.NewMemberID(), Name: name, State: mesh.MemberActive, Created: time.Now().UTC()}
	w.change("member add", func(tx *store.Tx) error { return store.Create(tx, w.st.Members, m.ID, m) })
	return m.ID
}

// server makes the backups of one server, which leads until stop is called.
type server struct {
	*backups.Service
	st   *store.Store
	stop func()
}

func (w *world) server() *server {
	w.t.Helper()
	id := mesh.NewServerID()
	st := storetest.Open(w.t, w.etcd)
	key, err := ca.NewKey()
	if err != nil {
		w.t.Fatal(err)
	}
	inter, err := w.root.Intermediate(id, key.Public(), time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	authority, err := ca.New(ca.Config{Mesh: w.mesh, Server: id, Root: w.root.Cert(), Intermediate: inter, Key: key, Records: st})
	if err != nil {
		w.t.Fatal(err)
	}
	s := &server{st: st, Service: &backups.Service{
		Store: st, Mesh: w.mesh, Server: id, Office: office, Folder: filepath.Join(w.t.TempDir(), "backup"), Root: w.root.Cert().Raw,
		Epoch: func() int64 { return 1 },
		Keys: func() backup.Keys {
			return backup.Keys{Data: [][32]byte{storetest.DataKey}, SealedRoot: []byte("sealed root"), Root: ca.MarshalCert(w.root.Cert())}
		},
		Certify: authority.IssueBackup, Scratch: w.scratch, Wake: func() {}, Log: slog.New(slog.DiscardHandler), Poll: 10 * time.Millisecond,
	}}
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := st.Lead(ctx, office, id, s.Lead); err != nil {
			w.t.Errorf("lead: %v", err)
		}
	})
	s.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(s.stop)
	return s
}

// scratch is an etcd of its own for each proof.
func (w *world) scratch(ctx context.Context, _ string, use func(context.Context, *store.Store) error) error {
	return use(ctx, storetest.New(w.t))
}

// until waits for what f looks for.
func until[V any](t *testing.T, what string, f func() (V, bool)) V {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if v, ok := f(); ok {
			return v
		}
	}
	t.Fatalf("never: %s", what)
	panic("unreachable")
}

// due waits for an order to commit that is later than after.
func (s *server) due(t *testing.T, after uint64) *chores.BackupOrder {
	t.Helper()
	return until(t, fmt.Sprintf("an order after %d", after), func() (*chores.BackupOrder, bool) {
		o := s.Order()
		return o, o != nil && o.Due > after
	})
}

// round does what the child does: it says whether there was a commit.
func (w *world) round(s *server, o *chores.BackupOrder) (bool, error) {
	base := chores.BackupBase{Epoch: o.Epoch, Commit: w.head, Files: map[string][]byte{}}
	for path, data := range w.tree {
		if backup.NeededForDraft(path) {
			base.Files[path] = data
		}
	}
	next := backup.Files{}
	maps.Copy(next, w.tree)
	d, err := s.Draft(w.t.Context(), base, func(f backup.File) error { next.Apply(f); return nil })
	if err != nil {
		return false, err
	}
	if err := s.Allow(w.t.Context(), o.Epoch); err != nil {
		return false, err
	}
	out := chores.BackupOutcome{Due: o.Due, Commit: w.head, Committed: d != nil}
	if d != nil {
		w.n++
		w.tree, w.head = next, fmt.Sprintf("%040x", w.n)
		out.Commit, out.Revision = w.head, d.Revision
	}
	out.Remotes = []chores.RemoteOutcome{{Name: "r", Head: w.head, Revision: out.Revision}}
	s.Ended(out)
	return d != nil, nil
}

func (w *world) mustRound(s *server, o *chores.BackupOrder) bool {
	w.t.Helper()
	committed, err := w.round(s, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return committed
}

// read is what alice reads in the repository.
func (w *world) read() *backup.State {
	w.t.Helper()
	st, err := backup.Read(w.t.Context(), w.tree, []backup.Identity{w.alice}, backup.ReadOptions{Root: sha256.Sum256(w.root.Cert().Raw), Mesh: w.mesh, Audit: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

// state waits until the store holds a state that is as it should be.
func (w *world) state(what string, ok func(mesh.BackupState) bool) mesh.BackupState {
	w.t.Helper()
	var last mesh.BackupState
	return until(w.t, what, func() (mesh.BackupState, bool) {
		it, err := w.st.BackupState.Get(w.t.Context(), store.BackupStateKey)
		last = it.Value
		return last, err == nil && ok(last)
	})
}

// events are the types of what was raised, with their objects.
func (w *world) events() map[string]mesh.EventType {
	w.t.Helper()
	all, _, err := w.st.Events.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]mesh.EventType{}
	for _, e := range all {
		out[e.Object] = e.Type
	}
	return out
}
