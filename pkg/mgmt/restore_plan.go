package mgmt

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// RestorePlan is what is known before anything is written.
type RestorePlan struct {
	Mesh   mesh.ID
	Server mesh.ServerID // new
	From   string        // names the backup
	Made   time.Time     // of the backup
	Signer mesh.ServerID // who has signed it; "": its signature was not asked for
	// Epoch is the one that begins; the backup is of an earlier one.
	Epoch, Was int64
	Revision   int64
	Counts     []RestoreCount // by kind
	Lost       []mesh.Server  // of before, by name: removed and revoked
	Nodes      []string       // host:port where nodes look for management
	Own        []string       // host:port of this server
	Clusters   []string       // of Kubernetes, that are gone on with, by name
	Tokens     int            // join tokens that are cancelled
	Rekey      bool           // the data key was being replaced
	Unread     int            // segments of the audit that no identity opens
	Changed    time.Time      // the last change on record; zero: not known
}

// RestoreCount is how many objects of a kind there are.
type RestoreCount struct {
	Kind string
	N    int
}

// Reachable says whether nodes will find this server by themselves, because it
// has an address under which they look.
func (p RestorePlan) Reachable() bool {
	return slices.ContainsFunc(p.Own, func(a string) bool { return slices.Contains(p.Nodes, a) })
}

// examine checks all that can be checked without writing, opens the root, and
// makes the keys of this server and the plan.
func (x *Restoration) examine(ctx context.Context, state *backup.State) (*restoring, error) {
	r := &restoring{Restoration: x, state: state, made: time.Now().UTC()}
	if err := r.complete(); err != nil {
		return nil, err
	}
	cert, err := r.rootCert()
	if err != nil {
		return nil, err
	}
	if err := store.CheckObjects(r.objects(), state.Keys.Data...); err != nil {
		return nil, mesh.WithHint(fmt.Errorf("mgmt: restore: %w", err), "take another commit of this backup: --at")
	}
	if err := r.openRoot(ctx, cert); err != nil {
		return nil, err
	}
	if err := r.makeKeys(); err != nil {
		return nil, err
	}
	return r, r.plans()
}

// complete refuses a backup without what a mesh cannot be without. It names all
// that has to be made anew then, by hand.
func (r *restoring) complete() error {
	s := r.state
	if s.Secrets && len(s.Keys.Data) > 0 && len(s.Keys.SealedRoot) > 0 && !slices.ContainsFunc(s.Objects, func(o backup.Object) bool { return o.Partial }) {
		return nil
	}
	var lost []string
	add := func(is bool, text string) {
		if is {
			lost = append(lost, text)
		}
	}
	n := map[string]int{}
	for _, o := range s.Objects {
		n[o.Folder]++
	}
	add(len(s.Keys.SealedRoot) == 0, "the root of the mesh: every server, core, entry and administrator joins a new mesh with a new token")
	add(len(s.Keys.Data) == 0, "the data key: nothing that was sealed can be opened")
	add(n["devices"] > 0, fmt.Sprintf("the secrets of %d devices: each is given out anew", n["devices"]))
	add(n["cells"] > 0, fmt.Sprintf("the certificate authorities of %d cells: clients get new ones", n["cells"]))
	add(!s.Plaintext, "all names, contacts, labels and addresses, which were not written either")
	return mesh.WithHint(fmt.Errorf("mgmt: restore: this backup was made without a recipient, so no secret is in it, and a mesh cannot be made of it; lost with the servers are:\n  %s: %w",
		strings.Join(lost, "\n  "), mesh.ErrInvalid),
		"take an earlier commit that has secrets (--at), or found a new mesh (meshctl mgmt serve) and read what is open in the repository as a list of what there was")
}

func (r *restoring) rootCert() (*x509.Certificate, error) {
	cert, err := ca.ParseCert(r.state.Keys.Root)
	if err != nil {
		return nil, fmt.Errorf("mgmt: restore: the root in the backup: %w", err)
	}
	if sum := sha256.Sum256(cert.Raw); sum != r.Root {
		return nil, mesh.WithHint(fmt.Errorf("mgmt: restore: the root in the backup has the SHA-256 %x, asked for was %x: %w", sum, r.Root, mesh.ErrDenied),
			"--root is on the recovery kit; if it is right, this is the backup of another mesh, or a forgery")
	}
	return cert, nil
}

// openRoot opens the sealed root; its key is in the clear in this process alone.
func (r *restoring) openRoot(ctx context.Context, cert *x509.Certificate) error {
	if r.Passphrase == nil {
		return setupf("run it where a passphrase can be asked for, or name a file that holds it", "restore: no root passphrase")
	}
	secret, err := r.Passphrase(ctx)
	if err != nil {
		return fmt.Errorf("mgmt: restore: root passphrase: %w", err)
	}
	r.root, err = ca.OpenRoot(r.state.Keys.SealedRoot, cert, []byte(secret.Reveal()))
	if err != nil {
		return mesh.WithHint(fmt.Errorf("mgmt: restore: %w", err), "it takes the passphrase that the mesh was founded with")
	}
	return nil
}

// makeKeys makes what is of this server alone, and etcd's CA.
func (r *restoring) makeKeys() error {
	r.keys = keys{serverFile: serverFile{Mesh: r.state.Mesh, Server: mesh.NewServerID(), Made: r.made}, data: r.state.Keys.Data}
	files, err := serverKeys(r.root, r.keys.serverFile, r.made)
	if err != nil {
		return err
	}
	files[fileRootSealed] = r.state.Keys.SealedRoot
	r.files = files
	return nil
}

// objects are what is imported.
func (r *restoring) objects() []store.Raw {
	out := make([]store.Raw, 0, len(r.state.Objects)+len(r.state.Audit))
	for _, o := range slices.Concat(r.state.Objects, r.state.Audit) {
		out = append(out, store.Raw{Folder: o.Folder, ID: o.ID, Value: o.JSON})
	}
	return out
}

func (r *restoring) plans() error {
	s := r.state
	r.plan = RestorePlan{
		Mesh: s.Mesh, Server: r.keys.Server, From: r.From, Made: s.Time, Signer: s.Server, Was: s.Epoch,
		Epoch: max(s.Epoch, r.Seen) + 1, Revision: s.Revision, Own: r.Config.Advertised(), Unread: s.AuditUnread,
	}
	n := map[string]int{}
	for _, o := range slices.Concat(s.Objects, s.Audit) {
		n[o.Folder]++
		if err := r.note(o); err != nil {
			return fmt.Errorf("mgmt: restore: read %s: %w", o.Name(), err)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		r.plan.Counts = append(r.plan.Counts, RestoreCount{kind, n[kind]})
	}
	slices.Sort(r.plan.Clusters)
	slices.SortFunc(r.plan.Lost, func(a, b mesh.Server) int { return cmpNames(a.Name, b.Name) })
	return nil
}

// note adds to the plan what one object says.
func (r *restoring) note(o backup.Object) error {
	switch o.Folder {
	case "servers":
		v, err := codec.Decode[mesh.Server](o.JSON)
		if err == nil && v.State != mesh.ServerRemoved {
			r.plan.Lost = append(r.plan.Lost, v)
		}
		return err
	case "config":
		v, err := codec.Decode[mesh.Config](o.JSON)
		r.plan.Nodes, r.plan.Epoch = v.MgmtAddresses, max(r.plan.Epoch, v.Epoch+1)
		return err
	case "kubes":
		v, err := codec.Decode[mesh.KubeCluster](o.JSON)
		r.plan.Clusters = append(r.plan.Clusters, v.Name)
		return err
	case "tokens":
		v, err := codec.Decode[mesh.Token](o.JSON)
		if err == nil && v.State(r.made) == mesh.TokenUnused {
			r.plan.Tokens++
		}
		return err
	case "ca":
		if o.ID != blobRekey {
			return nil
		}
		b, err := codec.Decode[store.Blob](o.JSON)
		var state rekeyState
		if err == nil {
			err = json.Unmarshal(b.Data, &state)
		}
		r.plan.Rekey = state.underWay()
		return err
	case backup.FolderAudit:
		v, err := codec.Decode[mesh.AuditRecord](o.JSON)
		if v.Time.After(r.plan.Changed) {
			r.plan.Changed = v.Time
		}
		return err
	}
	return nil
}

// raise begins the next epoch in the configuration, and tells nodes of this
// server.
func (r *restoring) raise(tx *store.Tx, st *store.Store) error {
	proof, err := r.root.SignEpoch(r.plan.Epoch, r.made)
	if err != nil {
		return err
	}
	return store.Update(tx, st.Config, store.ConfigKey, func(c *mesh.Config) error {
		c.Epoch, c.EpochProof, c.MgmtAddresses = r.plan.Epoch, proof, r.plan.Own
		c.Restored = mesh.Restored{At: r.made, Backup: r.plan.Made, Epoch: r.plan.Epoch, Collect: r.Collect}
		return nil
	})
}

// alive refuses a restore while a server of before answers, and says whether it
// is one and whether it may know more than the backup.
func (r *restoring) alive(ctx context.Context, s mesh.Server, at string) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	what := "something answers where server %q of the backup was, on %s: %w"
	d := tls.Dialer{Config: identity.PinnedTLS(r.Root, identity.ProtoGRPC)}
	if conn, err := d.DialContext(ctx, "tcp", at); err == nil {
		leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
		conn.Close() // it has told what was asked
		what = "server %q of this mesh lives: it answers on %s"
		if issued := leaf.NotBefore.Add(mesh.Backdate); issued.After(r.plan.Made) {
			what += fmt.Sprintf(" with a certificate of %s, which is newer than the backup", issued.UTC().Format(time.RFC3339))
		}
		what += ": %w"
	}
	return mesh.WithHint(fmt.Errorf("mgmt: restore: "+what, s.Name, at, mesh.ErrConflict),
		"a restore makes a second mesh beside one that lives, with the same keys: one server that is left goes on alone with `meshctl mgmt recover`, and with all that it knows; "+
			"if all are to go, stop them for good and wipe their data folders first")
}
