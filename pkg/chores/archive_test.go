package chores

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// archive is the server's side of backups, of a state in memory.
type archive struct {
	t     testing.TB
	world *world

	mu       sync.Mutex         // guards what is below
	at       func(point string) // called where the server is asked for something
	order    BackupOrder
	denied   bool
	drafts   []BackupBase
	allowed  int
	outcomes []BackupOutcome
	proofs   []proven
}

type proven struct {
	BackupProof
	state *backup.State
	err   error
}

// world is a mesh with a state, which several archives may share.
type world struct {
	ca       *identitytest.Mesh
	renderer backup.Renderer
	reader   *age.X25519Identity

	mu    sync.Mutex // guards what is below
	state backup.State
	audit []backup.Object
}

func newWorld(t testing.TB) *world {
	t.Helper()
	ca := identitytest.New(t)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{ca: ca, reader: id, renderer: renderer(t, ca)}
	w.state = backup.State{
		Mesh: ca.ID, Keys: backup.Keys{Data: [][32]byte{{1}}, SealedRoot: []byte("sealed"), Root: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Root.Raw})},
		Recipients: []backup.Recipient{{Name: "reader", Key: id.Recipient().String()}},
	}
	return w
}

func renderer(t testing.TB, ca *identitytest.Mesh) backup.Renderer {
	key := identitytest.Key(t)
	uri, err := url.Parse(mesh.BackupURI(ca.ID, ca.Server))
	if err != nil {
		t.Fatal(err)
	}
	ders := ca.Chain(t, ca.Identity(mesh.RoleMgmt), key.Public(), identitytest.Names(uri), identitytest.Usage(), func(c *x509.Certificate) {
		c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{identity.DocumentSigning()}
	})
	r := backup.Renderer{Signer: crypto.Signer(key)}
	for _, der := range ders {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		r.Chain = append(r.Chain, c)
	}
	return r
}

// change puts n objects into the state, or changes them, and says so in the
// audit log.
func (w *world) change(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Revision++
	known := map[string]int{}
	for i, o := range w.state.Objects {
		known[o.ID] = i
	}
	for i := range n {
		o := backup.Object{Folder: "devices", ID: fmt.Sprintf("device-%016d", i)}
		o.JSON = fmt.Appendf(nil, `{"schema":1,"minReader":1,"id":%q,"name":"name %d","state":"active","secret":"sealed:v1:%032d","seen":%d}`, o.ID, i, i, w.state.Revision)
		if at, ok := known[o.ID]; ok {
			w.state.Objects[at] = o
		} else {
			w.state.Objects = append(w.state.Objects, o)
		}
	}
	now := time.Now().UTC()
	id := fmt.Sprintf("%016x%08x", now.UnixMicro(), len(w.audit))
	w.audit = append(w.audit, backup.Object{Folder: backup.FolderAudit, ID: id, JSON: fmt.Appendf(nil,
		`{"schema":1,"minReader":1,"id":%q,"time":%q,"actor":"admin:admin-abcdefghijklmnop","action":"device.change","changes":[{"object":"device/device-0000000000000000"}]}`, id, now.Format(time.RFC3339))})
}

// now is the state and the audit log of now.
func (w *world) now(e BackupEpoch) (backup.State, backup.AuditSource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, audit := w.state, slices.Clone(w.audit)
	s.Objects = slices.Clone(s.Objects)
	s.Epoch, s.Leader, s.Time = e.Mesh, e.Leader, time.Now()
	return s, func(after string) iter.Seq2[backup.Object, error] {
		return func(yield func(backup.Object, error) bool) {
			for _, o := range audit {
				if o.ID > after && !yield(o, nil) {
					return
				}
			}
		}
	}
}

// newArchive is one leader's, of that epoch, which pushes to the URLs.
func newArchive(t testing.TB, w *world, epoch BackupEpoch, folder string, urls ...string) *archive {
	a := &archive{t: t, world: w, at: func(string) {}}
	a.order = BackupOrder{Mesh: w.ca.ID, Root: w.ca.Root.Raw, Folder: folder, Epoch: epoch}
	for i, u := range urls {
		a.order.Remotes = append(a.order.Remotes, BackupRemote{Name: fmt.Sprintf("remote%d", i), URL: u, Branch: "main", Auth: mesh.BackupAuthNone})
	}
	return a
}

func (a *archive) Lead(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (a *archive) Order() *BackupOrder {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.order
	return &o
}

func (a *archive) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *archive) reached(point string) {
	a.mu.Lock()
	at := a.at
	a.mu.Unlock()
	at(point)
}

// due asks for a commit, prove for a proof.
func (a *archive) due() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.order.Due++
	return a.order.Due
}

func (a *archive) prove() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.order.Prove++
	return a.order.Prove
}

func (a *archive) Draft(ctx context.Context, base BackupBase, put func(backup.File) error) (*BackupDraft, error) {
	a.reached("draft")
	a.set(func() { a.drafts = append(a.drafts, base) })
	s, audit := a.world.now(base.Epoch)
	n := 0
	sum, err := a.world.renderer.Draft(ctx, backup.Files(base.Files), s, audit, func(f backup.File) error {
		if n++; n == 3 {
			a.reached("file")
		}
		if f.Path == "manifest.sig" {
			a.reached("manifest")
		}
		return put(f)
	})
	if err != nil || !sum.Changed {
		return nil, err
	}
	a.reached("drafted")
	return &BackupDraft{Message: sum.Message(), Revision: s.Revision, Time: s.Time, Full: sum.Full}, nil
}

func (a *archive) Allow(_ context.Context, e BackupEpoch) error {
	a.reached("allow")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allowed++
	if a.denied || e != a.order.Epoch {
		return fmt.Errorf("the office is another's: %w", mesh.ErrDenied)
	}
	return nil
}

func (a *archive) Prove(ctx context.Context, p BackupProof, tree backup.Tree) {
	a.reached("prove")
	got := proven{BackupProof: p}
	got.state, got.err = backup.Read(ctx, tree, []backup.Identity{a.world.reader}, backup.ReadOptions{Root: a.world.ca.RootHash(), Audit: true})
	a.set(func() { a.proofs = append(a.proofs, got) })
}

func (a *archive) Ended(out BackupOutcome) {
	a.reached("ended")
	a.set(func() { a.outcomes = append(a.outcomes, out) })
}

// last is the newest outcome of a round that began with due, or later.
func (a *archive) last(due uint64) (BackupOutcome, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, out := range slices.Backward(a.outcomes) {
		if out.Due >= due {
			return out, nil
		}
	}
	return BackupOutcome{}, errors.New("no outcome yet")
}

// left is how a remote was left when it was last attended to.
func (a *archive) left(name string) (RemoteOutcome, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, out := range slices.Backward(a.outcomes) {
		for _, r := range out.Remotes {
			if r.Name == name {
				return r, true
			}
		}
	}
	return RemoteOutcome{}, false
}

// readRemote reads the backup that a repository holds.
func readRemote(t testing.TB, w *world, remote string) *backup.State {
	t.Helper()
	c, err := repo.Clone(t.Context(), repo.Remote{Name: "look", URL: remote, Auth: mesh.BackupAuthNone}, "", 0, repo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tree, err := c.Tree(c.Head())
	if err != nil {
		t.Fatal(err)
	}
	state, err := backup.Read(t.Context(), tree, []backup.Identity{w.reader}, backup.ReadOptions{Root: w.ca.RootHash(), Mesh: w.ca.ID, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func equalJSON(a, b []byte) bool { return backup.Equal(a, b) }
