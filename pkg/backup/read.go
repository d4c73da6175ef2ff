package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"filippo.io/age"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// ReadOptions say what to believe and what to read.
type ReadOptions struct {
	// Root is the SHA-256 of the root certificate's DER. A backup that no server
	// under that root has signed is refused.
	Root [sha256.Size]byte
	// Mesh is which mesh it has to be of; "" is any under Root.
	Mesh mesh.ID
	// Unsigned reads a backup whatever its signature. Anybody may have made it.
	Unsigned bool
	// Public reads what anybody may see, without identities. Objects and keys
	// are then incomplete.
	Public bool
	// Audit reads audit records too, AuditAfter those above an id alone. All
	// segments are checked in any case.
	Audit      bool
	AuditAfter string
}

// Read reads a whole backup and checks everything in it: the signature before
// anything else, then each file against its digest, what is missing and what
// should not be there, and then decrypts. It returns *FaultsError (ErrInvalid)
// with everything that is wrong at once, ErrDenied for a signature that does not
// hold, *TooNewError, or an error of the tree.
func Read(ctx context.Context, tree Tree, ids []Identity, opts ReadOptions) (*State, error) {
	r := &reader{tree: tree, ids: ids, opts: opts}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	if err := r.files(ctx); err != nil {
		return nil, err
	}
	if err := r.auditChain(ctx); err != nil {
		return nil, err
	}
	r.finish()
	if err := r.faults.err(); err != nil {
		return nil, err
	}
	return &r.state, nil
}

// reader is one Read under way.
type reader struct {
	tree  Tree
	ids   []Identity
	opts  ReadOptions
	m     *Manifest
	base  *baseline
	mac   keyed
	state State

	want      map[string]*wanted // by path
	unlisted  map[string]bool    // folders of which the index has faults
	auditSums map[string]string  // SHA-256 of files in audit/, by path
	auditDays map[string][]byte  // indexes of days, by path

	mu     sync.Mutex // guards what follows
	faults faults
	parts  map[string]*parts // objects by folder/id
}

// wanted is a file that has to be there.
type wanted struct {
	sum    string
	object *parts // nil: of no object
	closed bool
	seen   bool
}

// parts is an object being put together.
type parts struct {
	folder, id   string
	entry        entry
	open, closed map[string]any
}

// begin reads the manifest and the index. It returns an error when nothing else
// can be believed.
func (r *reader) begin(ctx context.Context) error {
	if err := r.manifest(ctx); err != nil {
		return err
	}
	r.state = State{
		Mesh: r.m.Mesh, Epoch: r.m.Epoch, Leader: r.m.Leader, Revision: r.m.Revision, Time: r.m.Time,
		Plaintext: r.m.Plaintext, Secrets: r.m.Secrets, Server: r.state.Server,
	}
	r.want, r.parts = make(map[string]*wanted), make(map[string]*parts)
	r.auditSums, r.auditDays = make(map[string]string), make(map[string][]byte)
	for path, sum := range r.m.Files {
		r.want[path] = &wanted{sum: sum}
	}
	if err := r.readIndex(ctx); err != nil {
		return err
	}
	if r.m.Secrets && !r.opts.Public {
		return r.keys(ctx)
	}
	return nil
}

func (r *reader) manifest(ctx context.Context) error {
	manifest, err := r.tree.File(ctx, fileManifest)
	if errors.Is(err, mesh.ErrNotFound) {
		return mesh.WithHint(fmt.Errorf("backup: %s: is missing: there is no backup here: %w", fileManifest, mesh.ErrNotFound),
			"name the repository and the branch that backups go to")
	}
	if err != nil {
		return fmt.Errorf("backup: read: %w", err)
	}
	sig, err := r.tree.File(ctx, fileSignature)
	if err != nil && !errors.Is(err, mesh.ErrNotFound) {
		return fmt.Errorf("backup: read: %w", err)
	}
	missing := err != nil
	r.m, r.state.Server, err = VerifyManifest(manifest, sig, r.opts.Root)
	switch {
	case err != nil && r.opts.Unsigned:
		r.m, err = ParseManifest(manifest)
	case missing:
		err = fmt.Errorf("backup: %s: is missing: %w", fileSignature, mesh.ErrDenied)
	}
	if errors.Is(err, mesh.ErrDenied) {
		return mesh.WithHint(err, "compare the root with the one you wrote down at founding; if it is right, this is no backup of your mesh: take another commit or remote")
	}
	if err != nil {
		return err
	}
	if r.opts.Mesh != "" && r.m.Mesh != r.opts.Mesh {
		return fmt.Errorf("backup: %s: it is of %s, not of %s: %w", fileManifest, r.m.Mesh, r.opts.Mesh, mesh.ErrDenied)
	}
	return nil
}

func (r *reader) readIndex(ctx context.Context) error {
	files := make(map[string][]byte)
	if err := r.tree.Each(ctx, dirIndex+"/", func(path string, data []byte) error {
		files[path] = data
		return nil
	}); err != nil {
		return fmt.Errorf("backup: read: %w", err)
	}
	r.base = noBase()
	r.base.m = r.m
	before := r.faults.Count
	r.base.index(files, &r.faults)
	if r.faults.Count > before {
		r.unlisted = make(map[string]bool)
		for _, f := range r.faults.Faults {
			folder, _, _ := strings.Cut(strings.TrimPrefix(f.Path, dirIndex+"/"), "/")
			r.unlisted[strings.TrimSuffix(folder, ".yaml")] = true
		}
	}
	for folder, byShard := range r.base.shards {
		n := 0
		for name, s := range byShard {
			n += len(s)
			for id, e := range s {
				if shardOf(folder, id) != name {
					r.faults.add(shardIndexPath(folder, name), "%s does not belong there", id)
					continue
				}
				r.object(folder, id, e)
			}
		}
		if n != r.m.Folders[folder].Objects && !r.unlisted[folder] {
			r.faults.add(folderIndexPath(folder), "%d objects, and the manifest says %d", n, r.m.Folders[folder].Objects)
		}
	}
	return nil
}

func (r *reader) object(folder, id string, e entry) {
	p := &parts{folder: folder, id: id, entry: e}
	r.parts[folder+"/"+id] = p
	r.want[pathOf(folder, id)+extOpen] = &wanted{sum: e.open, object: p}
	if e.closed != "" {
		r.want[pathOf(folder, id)+extClosed] = &wanted{sum: e.closed, object: p, closed: true}
	}
}

// keys opens keys.age, and so finds out whether the identities fit.
func (r *reader) keys(ctx context.Context) error {
	sum, ok := r.m.Files[fileKeys]
	if !ok {
		r.faults.add(fileManifest, "it names no %s", fileKeys)
		return nil
	}
	data, err := r.tree.File(ctx, fileKeys)
	if errors.Is(err, mesh.ErrNotFound) {
		return nil // files reports it
	}
	if err != nil {
		return fmt.Errorf("backup: read: %w", err)
	}
	if digest(data) != sum {
		return nil // likewise
	}
	plain, err := open(data, r.ids)
	if _, no := errors.AsType[*age.NoIdentityMatchError](err); no || len(r.ids) == 0 {
		return mesh.WithHint(fmt.Errorf("backup: %s: no identity that was given opens it: %w", fileKeys, mesh.ErrDenied),
			"give the identity of one of recipients/*.txt, or the passphrase of one of recipients/*.age")
	}
	if err != nil {
		r.faults.add(fileKeys, "does not open: %v", err)
		return nil
	}
	if err := r.state.Keys.decode(plain); err != nil {
		r.faults.add(fileKeys, "%v", err)
		return nil
	}
	r.mac, err = newKeyed(r.state.Keys.Data[0])
	if err != nil {
		return err
	}
	if r.mac.of(fileKeys, plain) != r.m.KeysPlain {
		r.faults.add(fileKeys, "holds something else than the manifest says")
	}
	return nil
}

// finish puts the objects together and sorts them.
func (r *reader) finish() {
	for _, p := range r.parts {
		if p.open == nil || p.entry.closed != "" && p.closed == nil && !r.opts.Public {
			continue // a fault says why
		}
		if both := merge(p.open, p.closed); both != "" {
			r.faults.add(pathOf(p.folder, p.id)+extClosed, "holds %s, and so does what is public of the object", mesh.Quotable(both))
			continue
		}
		r.state.Objects = append(r.state.Objects, Object{
			Folder: p.folder, ID: p.id, JSON: appendObject(nil, p.open), Partial: p.entry.partial || r.opts.Public && p.entry.closed != "",
		})
	}
	slices.SortFunc(r.state.Objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Folder, b.Folder), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(r.state.Recipients, func(a, b Recipient) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.faults.Faults, func(a, b Fault) int { return cmp.Compare(a.Path, b.Path) })
}

// root checks that root.crt is the root that was asked for.
func (r *reader) root(data []byte) {
	b, _ := pem.Decode(data)
	if b == nil {
		r.faults.add(fileRoot, "is no certificate")
		return
	}
	if _, err := x509.ParseCertificate(b.Bytes); err != nil {
		r.faults.add(fileRoot, "is no certificate: %v", err)
		return
	}
	if sha256.Sum256(b.Bytes) != r.opts.Root && !r.opts.Unsigned {
		r.faults.add(fileRoot, "is not the root that was asked for")
		return
	}
	r.state.Keys.Root = data
}
