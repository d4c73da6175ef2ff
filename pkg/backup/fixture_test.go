package backup_test

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"iter"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// A world is a mesh that makes backups, and who may read them.
type world struct {
	t     testing.TB
	mesh  mesh.ID
	now   time.Time
	r     backup.Renderer
	root  [32]byte
	pem   []byte
	alice *age.X25519Identity
	own   *age.X25519Identity // the mesh's
	state backup.State
	audit []backup.Object

	signer func(crypto.Signer) // certifies another key
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, mesh: mesh.NewID(), now: time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)}
	w.sign(mesh.NewServerID())
	w.alice, w.own = newAge(t), newAge(t)
	w.state = backup.State{
		Mesh: w.mesh, Epoch: 1, Leader: 7, Revision: 100, Time: w.now,
		Keys:            backup.Keys{Data: [][32]byte{{1, 2, 3}}, SealedRoot: []byte("sealed root"), Root: w.pem},
		Recipients:      []backup.Recipient{{Name: "alice", Key: w.alice.Recipient().String()}},
		VerifyRecipient: w.own.Recipient().String(),
	}
	return w
}

func newAge(t testing.TB) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// sign makes a root, an intermediate and a leaf of server that signs backups.
func (w *world) sign(server mesh.ServerID) {
	rootKey, interKey := newECDSA(w.t), newECDSA(w.t)
	root := w.cert(&x509.Certificate{Subject: pkix.Name{CommonName: "root"}, IsCA: true}, nil, rootKey.Public(), rootKey)
	inter := w.cert(&x509.Certificate{Subject: pkix.Name{CommonName: mesh.IssuerName(w.mesh, server)}, IsCA: true}, root, interKey.Public(), rootKey)
	w.root = sha256.Sum256(root.Raw)
	w.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw})
	w.signer = func(key crypto.Signer) { w.leaf(server, key, inter, root, interKey) }
	w.signer(newECDSA(w.t))
}

// resign changes the text of the manifest, and signs it as a server would.
func (w *world) resign(tree backup.Files, change func(string) string) {
	w.t.Helper()
	text := change(string(tree["manifest.yaml"]))
	if text == string(tree["manifest.yaml"]) {
		w.t.Fatal("nothing was changed in the manifest")
	}
	sig, err := backup.Sign([]byte(text), w.r.Signer, w.r.Chain)
	if err != nil {
		w.t.Fatal(err)
	}
	tree["manifest.yaml"], tree["manifest.sig"] = []byte(text), sig
}

func (w *world) leaf(server mesh.ServerID, key crypto.Signer, inter, root *x509.Certificate, interKey crypto.Signer) {
	uri, err := url.Parse(mesh.BackupURI(w.mesh, server))
	if err != nil {
		w.t.Fatal(err)
	}
	leaf := w.cert(&x509.Certificate{URIs: []*url.URL{uri}, UnknownExtKeyUsage: []asn1.ObjectIdentifier{identity.DocumentSigning()}},
		inter, key.Public(), interKey)
	w.r = backup.Renderer{Signer: key, Chain: []*x509.Certificate{leaf, inter, root}}
}

func newECDSA(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newEd25519(t testing.TB) crypto.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (w *world) cert(c, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	w.t.Helper()
	c.SerialNumber, c.BasicConstraintsValid = big.NewInt(time.Now().UnixNano()), true
	c.NotBefore, c.NotAfter = w.now.Add(-time.Hour), w.now.Add(30*24*time.Hour)
	if c.KeyUsage = x509.KeyUsageDigitalSignature; c.IsCA {
		c.KeyUsage = x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, c, cmp.Or(parent, c), pub, key)
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// source hands out the audit records after an id.
func (w *world) source(after string) iter.Seq2[backup.Object, error] {
	return func(yield func(backup.Object, error) bool) {
		for _, o := range w.audit {
			if o.ID > after && !yield(o, nil) {
				return
			}
		}
	}
}

// did adds an audit record of a moment.
func (w *world) did(at time.Time, action, object string) backup.Object {
	id := fmt.Sprintf("%016x%08x", at.UnixMicro(), len(w.audit))
	o := backup.Object{Folder: backup.FolderAudit, ID: id, JSON: fmt.Appendf(nil,
		`{"schema":1,"minReader":1,"id":%q,"time":%q,"actor":"admin:admin-abcdefghijklmnop","action":%q,"changes":[{"object":%q,"after":{"name":"Alicia"}}]}`,
		id, at.Format(time.RFC3339), action, object)}
	w.audit = append(w.audit, o)
	return o
}

// draft makes the backup of the state on top of base, which it changes, and
// checks what every draft keeps to.
func (w *world) draft(base backup.Files) (backup.Summary, []backup.File) {
	w.t.Helper()
	need := make(backup.Files)
	for path, data := range base {
		if backup.NeededForDraft(path) {
			need[path] = data
		}
	}
	var files []backup.File
	sum, err := w.r.Draft(context.Background(), need, w.state, w.source, func(f backup.File) error {
		files = append(files, f)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if sum.Changed != (len(files) > 0) || sum.Files+sum.Gone != len(files) {
		w.t.Fatalf("%d files, and the summary says %+v", len(files), sum)
	}
	if n := len(files); n > 0 && (files[n-2].Path != "manifest.yaml" || files[n-1].Path != "manifest.sig") {
		w.t.Fatalf("the manifest is not last: %s, %s", files[n-2].Path, files[n-1].Path)
	}
	seen := make(map[string]bool)
	for _, f := range files {
		if seen[f.Path] {
			w.t.Fatalf("%s is handed out twice", f.Path)
		}
		if _, ok := base[f.Path]; f.Gone && !ok {
			w.t.Fatalf("%s goes, and was not there", f.Path)
		}
		seen[f.Path] = true
		base.Apply(f)
	}
	return sum, files
}

func (w *world) opts() backup.ReadOptions {
	return backup.ReadOptions{Root: w.root, Mesh: w.mesh, Audit: true}
}

func (w *world) read(tree backup.Files) *backup.State {
	w.t.Helper()
	s, err := backup.Read(context.Background(), tree, []backup.Identity{w.alice}, w.opts())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// sameState compares what was put in with what came out.
func sameState(t testing.TB, in backup.State, out *backup.State) {
	t.Helper()
	want, got := byName(in.Objects), byName(out.Objects)
	for name, o := range want {
		g, ok := got[name]
		if !ok {
			t.Fatalf("%s is missing", name)
		}
		if !backup.Equal(o.JSON, g.JSON) || g.Partial {
			t.Fatalf("%s\n got %.2000s\nwant %.2000s", name, g.JSON, o.JSON)
		}
	}
	if len(want) != len(got) {
		t.Fatalf("%d objects, want %d", len(got), len(want))
	}
	if !slices.Equal(in.Keys.Data, out.Keys.Data) || string(in.Keys.SealedRoot) != string(out.Keys.SealedRoot) || string(in.Keys.Root) != string(out.Keys.Root) {
		t.Fatalf("keys differ")
	}
	if in.Mesh != out.Mesh || in.Epoch != out.Epoch || in.Leader != out.Leader || in.Revision != out.Revision || !in.Time.Equal(out.Time) || in.Plaintext != out.Plaintext {
		t.Fatalf("got %+v, want %+v", out, in)
	}
}

func byName(objects []backup.Object) map[string]backup.Object {
	out := make(map[string]backup.Object)
	for _, o := range objects {
		out[o.Name()] = o
	}
	return out
}

func object(folder, id, format string, args ...any) backup.Object {
	return backup.Object{Folder: folder, ID: id, JSON: fmt.Appendf(nil, format, args...)}
}

func paths(f backup.Files) []string { return slices.Sorted(maps.Keys(f)) }

func decrypt(t testing.TB, data []byte, id age.Identity) []byte {
	t.Helper()
	out, err := backup.OpenFile(data, []age.Identity{id})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
