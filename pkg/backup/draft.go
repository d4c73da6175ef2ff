package backup

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Renderer turns states into the files of backups, and signs them.
type Renderer struct {
	// Signer is the key of Chain[0], which names spiffe://<mesh>/backup/<server>.
	Signer crypto.Signer
	// Chain leads from the signer's certificate to the root, both included.
	Chain []*x509.Certificate
}

// batch is how many objects are rendered and encrypted at a time: what a Draft
// holds in memory beside the state and the index.
const batch = 64

// Draft hands the files to yield that turn base, the tree of the commit before,
// into the backup of s: the manifest and its signature last, the others in no
// order. It hands out nothing when base says already what s says. base needs
// only the files for which NeededForDraft holds; an empty one, one that another
// mesh signed or a damaged one makes a full draft.
//
// audit gives the records since; nil leaves them out. An error of yield ends the
// draft and is returned as it is. What was handed out before an error is no
// backup.
func (r *Renderer) Draft(ctx context.Context, base Tree, s State, audit AuditSource, yield func(File) error) (Summary, error) {
	d, err := r.begin(s, yield)
	if err != nil {
		return Summary{}, err
	}
	if err := d.load(ctx, base); err != nil {
		return Summary{}, err
	}
	for _, step := range []func(context.Context) error{
		d.objects, d.single, func(context.Context) error { return d.auditLog(audit) }, d.finish,
	} {
		if err := step(ctx); err != nil {
			return Summary{}, err
		}
	}
	return d.sum, nil
}

// draft is one Draft under way.
type draft struct {
	r     *Renderer
	s     State
	to    audience
	mac   keyed
	root  [sha256.Size]byte
	base  *baseline
	out   func(File) error
	sum   Summary
	m     Manifest
	named bool // the message names records that no manifest named before
}

func (r *Renderer) begin(s State, yield func(File) error) (*draft, error) {
	if r.Signer == nil || len(r.Chain) < 2 {
		return nil, fmt.Errorf("backup: draft: want a signer and its certificates: %w", mesh.ErrInvalid)
	}
	_, server, err := mesh.ParseBackupURI(uriOf(r.Chain[0]))
	if err != nil {
		return nil, fmt.Errorf("backup: draft: %w", err)
	}
	root := r.Chain[len(r.Chain)-1]
	if b, _ := pem.Decode(s.Keys.Root); b == nil || !bytes.Equal(b.Bytes, root.Raw) {
		return nil, fmt.Errorf("backup: draft: the signer's certificates do not end with the mesh's root: %w", mesh.ErrInvalid)
	}
	to, err := audienceOf(s)
	if err != nil {
		return nil, err
	}
	if len(s.Keys.Data) == 0 {
		return nil, fmt.Errorf("backup: draft: want a data key: %w", mesh.ErrInvalid)
	}
	if s.Objects, err = sorted(s.Objects); err != nil {
		return nil, err
	}
	mac, err := newKeyed(s.Keys.Data[0])
	if err != nil {
		return nil, err
	}
	s.Time = s.Time.UTC().Truncate(time.Second)
	d := &draft{r: r, s: s, to: to, mac: mac, out: yield,
		root: sha256.Sum256(root.Raw),
		sum:  Summary{Mesh: string(s.Mesh), Epoch: s.Epoch, Leader: s.Leader, Revision: s.Revision, Time: s.Time},
		m: Manifest{
			Format: Format, MinReader: Format, Mesh: s.Mesh, Server: server, Epoch: s.Epoch, Leader: s.Leader,
			Revision: s.Revision, Time: s.Time, Plaintext: s.Plaintext, Secrets: !to.empty(), Audience: to.fingerprint,
			Objects: len(s.Objects),
			Folders: make(map[string]FolderDigest), Files: make(map[string]string),
		}}
	return d, nil
}

func uriOf(c *x509.Certificate) string {
	if len(c.URIs) != 1 {
		return ""
	}
	return c.URIs[0].String()
}

func (d *draft) put(path string, data []byte) error {
	d.sum.Files++
	d.sum.Bytes += int64(len(data))
	return d.out(File{Path: path, Data: data})
}

func (d *draft) remove(path string) error {
	d.sum.Gone++
	return d.out(File{Path: path, Gone: true})
}

// same says whether ciphertexts of the base can stay: the recipients are those
// of before.
func (d *draft) same() bool { return d.base.m.Audience == d.to.fingerprint }

// single writes the files that are in no folder of objects.
func (d *draft) single(context.Context) error {
	files := append(recipientFiles(d.s.Recipients),
		File{Path: fileReadme, Data: []byte(readme)}, File{Path: fileRoot, Data: d.s.Keys.Root})
	for _, f := range files {
		sum := digest(f.Data)
		d.m.Files[f.Path] = sum
		if d.base.m.Files[f.Path] != sum {
			if err := d.put(f.Path, f.Data); err != nil {
				return err
			}
		}
	}
	if err := d.keys(); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(d.base.m.Files)) {
		if _, ok := d.m.Files[path]; !ok {
			if err := d.remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *draft) keys() error {
	if d.to.empty() {
		return nil
	}
	plain, err := d.s.Keys.encode()
	if err != nil {
		return fmt.Errorf("backup: draft %s: %w", fileKeys, err)
	}
	d.m.KeysPlain = d.mac.of(fileKeys, plain)
	if old := d.base.m.Files[fileKeys]; old != "" && d.same() && d.base.m.KeysPlain == d.m.KeysPlain {
		d.m.Files[fileKeys] = old
		return nil
	}
	sealed, err := d.to.seal(plain)
	if err != nil {
		return fmt.Errorf("backup: draft %s: %w", fileKeys, err)
	}
	d.m.Files[fileKeys] = digest(sealed)
	return d.put(fileKeys, sealed)
}

// finish writes the manifest, unless nothing changed.
func (d *draft) finish(context.Context) error {
	d.sum.Changed = d.sum.Full || d.named || d.sum.Files+d.sum.Gone > 0 ||
		d.base.m.Epoch != d.m.Epoch || d.base.m.Plaintext != d.m.Plaintext || d.base.m.Audience != d.m.Audience
	if !d.sum.Changed {
		return nil
	}
	text, err := d.m.encode()
	if err != nil {
		return fmt.Errorf("backup: draft %s: %w", fileManifest, err)
	}
	sig, err := sign(text, d.r.Signer, d.r.Chain)
	if err != nil {
		return err
	}
	// What a restore would refuse is not written.
	if _, _, err := VerifyManifest(text, sig, d.root); err != nil {
		return fmt.Errorf("backup: draft: %w", err)
	}
	if err := d.put(fileManifest, text); err != nil {
		return err
	}
	return d.put(fileSignature, sig)
}
