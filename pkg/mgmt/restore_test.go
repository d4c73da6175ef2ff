package mgmt

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// saved is a backup of a server, and what opens it.
type saved struct {
	tree backup.Files
	ids  []backup.Identity
	root [32]byte
}

// save makes a backup of what the server holds.
func (r *running) save(t testing.TB, change ...func(*backup.State)) saved {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	raws, rev, err := r.store.Export(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	s := backup.State{
		Mesh: r.keys.Mesh, Epoch: 1, Leader: 7, Revision: int64(rev), Time: time.Now(),
		Keys:       backup.Keys{Data: r.store.DataKeys(), SealedRoot: r.keys.rootSealed, Root: ca.MarshalCert(r.keys.root)},
		Recipients: []backup.Recipient{{Name: "ops", Key: id.Recipient().String()}},
	}
	for _, o := range raws {
		s.Objects = append(s.Objects, backup.Object{Folder: o.Folder, ID: o.ID, JSON: o.Value})
	}
	for _, f := range change {
		f(&s)
	}
	key := newKey(t)
	der, err := r.authority.IssueBackup(key.Public(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var chain []*x509.Certificate
	for _, b := range der {
		c, err := x509.ParseCertificate(b)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, c)
	}
	out := saved{tree: backup.Files{}, ids: []backup.Identity{id}, root: sha256.Sum256(r.keys.root.Raw)}
	render := backup.Renderer{Signer: key, Chain: chain}
	_, err = render.Draft(t.Context(), backup.Files{}, s, r.auditAfter(t), func(f backup.File) error {
		out.tree.Apply(f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *running) auditAfter(t testing.TB) backup.AuditSource {
	return func(after string) iter.Seq2[backup.Object, error] {
		return func(yield func(backup.Object, error) bool) {
			items, _, err := r.store.Audit.Page(t.Context(), after, 1000)
			for _, it := range items {
				text, err := json.Marshal(it.Value)
				if !yield(backup.Object{Folder: backup.FolderAudit, ID: it.Key, JSON: text}, err) {
					return
				}
			}
			if err != nil {
				yield(backup.Object{}, err)
			}
		}
	}
}

// restoration restores s into conf.
func (s saved) restoration(conf Config) *Restoration {
	return &Restoration{
		Config: conf, Root: s.root, From: strings.Repeat("ab", 20), Passphrase: givePassphrase,
		Collect: 1, // no node is there to be waited for
		Confirm: func(context.Context, RestorePlan) error { return nil },
		Read: func(ctx context.Context) (*backup.State, error) {
			return backup.Read(ctx, s.tree, s.ids, backup.ReadOptions{Root: s.root, Audit: true})
		},
	}
}

// burnt is a mesh whose only server is gone, and what is left of it.
type burnt struct {
	saved
	conf        Config // of the server that is to come
	mesh        mesh.ID
	server      mesh.ServerID
	device      admin.DeviceView
	link        admin.DeviceLink
	core, later *identity.Node // later: with a certificate newer than the backup
	token       mesh.JoinToken
}

func burn(t *testing.T) burnt {
	t.Helper()
	conf := testConfig(filepath.Join(t.TempDir(), "data"))
	conf.MeshListen, conf.Etcd.PeerListen = freeport.Addr(t), freeport.Addr(t)
	r, err := start(conf, new(logBuffer), givePassphrase)
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	defer func() {
		if !stopped {
			r.stop()
		}
	}()
	b := burnt{conf: conf, mesh: r.keys.Mesh, server: r.keys.Server}
	cc := r.local(t)
	member, cell := r.home(t)
	b.device = call(t, admin.DeviceAdd, cc, admin.DeviceAddRequest{Member: member, Name: "laptop", Cell: cell})
	b.link = call(t, admin.DeviceLinkOf, cc, admin.Ref{Ref: string(b.device.ID)})
	b.core = r.node(t, mesh.RoleCore)
	b.token = r.token(t, mesh.RoleEntry)
	b.saved = r.save(t)
	if b.later, err = renew(t, as(t, r.addr.Mesh, b.core), b.core.Identity()); err != nil {
		t.Fatal(err)
	}
	stopped = true
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	b.conf.Dir, b.conf.Name = filepath.Join(t.TempDir(), "data"), "beta"
	return b
}

// TestAMeshComesBackFromItsBackup burns a server and restores its backup as
// another one, which serves the same mesh in its next epoch.
func TestAMeshComesBackFromItsBackup(t *testing.T) {
	b := burn(t)
	x := b.restoration(b.conf)
	var plan RestorePlan
	no := errors.New("no")
	x.Confirm = func(_ context.Context, p RestorePlan) error { plan = p; return no }
	if _, err := x.Run(t.Context()); !errors.Is(err, no) {
		t.Fatalf("not confirmed: %v", err)
	}
	nothingIn(t, b.conf.Dir)
	if plan.Mesh != b.mesh || plan.Epoch != 2 || len(plan.Lost) != 1 || plan.Lost[0].ID != b.server || plan.Tokens != 1 || !plan.Reachable() || plan.Signer != b.server || plan.Changed.IsZero() {
		t.Errorf("the plan is %+v", plan)
	}
	x.Confirm = func(context.Context, RestorePlan) error { return nil }
	made, err := x.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if made.Mesh != b.mesh || made.ID == string(b.server) {
		t.Errorf("it is %s now", made)
	}
	logs := new(logBuffer)
	r, err := start(b.conf, logs, func(context.Context) (mesh.Secret, error) {
		t.Error("the passphrase was asked for")
		return "", no
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.stop()
	b.serves(t, r)
}

func (b burnt) serves(t *testing.T, r *running) {
	t.Helper()
	cc := r.local(t)
	eventually(t, "it serves", func() bool { return !r.nodes.Collecting() })
	if link := call(t, admin.DeviceLinkOf, cc, admin.Ref{Ref: "laptop"}); link.Secret != b.link.Secret || link.CA != b.link.CA || link.ServerName != b.link.ServerName {
		t.Errorf("the device's link is %+v, was %+v", link, b.link)
	}
	conf := call(t, admin.ConfigGet, cc, admin.None{})
	if conf.Epoch != 2 || len(conf.MgmtAddresses) != 1 || conf.MgmtAddresses[0] != b.conf.MeshListen {
		t.Errorf("the configuration is %+v", conf)
	}
	for _, s := range call(t, admin.MgmtList, cc, admin.Page{}).Items {
		if want := s.ID == b.server; want != (s.State == mesh.ServerRemoved) {
			t.Errorf("%s is %s", s.Name, s.State)
		}
	}
	actions := map[string]int{}
	for _, a := range call(t, admin.AuditList, cc, admin.AuditListRequest{}).Items {
		actions[a.Action]++
	}
	if actions["mesh.restore"] != 1 || actions["device.add"] != 1 || actions["mesh.found"] != 1 {
		t.Errorf("audit has %v", actions)
	}
	if _, err := join(t, b.token, mesh.RoleEntry, newFolder(t)); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a token from before: %v", err)
	}
	// Nodes have no token to come back with, and need none, whatever the backup
	// knows of their certificates.
	for name, n := range map[string]*identity.Node{"known": b.core, "newer than the backup": b.later} {
		if _, err := renew(t, as(t, r.addr.Mesh, n), n.Identity()); err != nil {
			t.Errorf("a core whose certificate is %s: %v", name, err)
		}
	}
}

func nothingIn(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != fileLock {
			t.Errorf("%s is left", f.Name())
		}
	}
}

// TestARestoreThatIsKilledHasMadeNothingOrAll takes the folder as it is after each
// step. It either founds nothing and restores again, or is finished by serve.
func TestARestoreThatIsKilledHasMadeNothingOrAll(t *testing.T) {
	b := burn(t)
	killed := map[string]string{} // step to folder
	x := b.restoration(b.conf)
	x.step = func(s string) error {
		killed[s] = filepath.Join(t.TempDir(), "data")
		return copyPrivate(b.conf.Dir, killed[s])
	}
	if _, err := x.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(killed) < 10 || killed["marked"] == "" {
		t.Errorf("stopped at %q", slices.Collect(maps.Keys(killed)))
	}
	for at, dir := range killed {
		conf := b.conf
		conf.Dir = dir
		b.afterKill(t, conf, at)
	}
}

// TestARestoreThatFailsLeavesNothing fails it after each step in turn, as a full
// disk would.
func TestARestoreThatFailsLeavesNothing(t *testing.T) {
	b := burn(t)
	for _, at := range []string{"keys", "imported", "rewritten", "complete"} {
		x := b.restoration(b.conf)
		x.step = func(s string) error {
			if s == at {
				return syscall.ENOSPC
			}
			return nil
		}
		if _, err := x.Run(t.Context()); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("failed at %q: %v", at, err)
		}
		nothingIn(t, b.conf.Dir)
	}
}

// afterKill: serve refuses what is not complete and finishes what is.
func (b burnt) afterKill(t *testing.T, conf Config, at string) {
	t.Helper()
	f, err := openFolder(conf.Dir)
	if err != nil {
		t.Fatal(err)
	}
	complete, err := f.has(fileRestore)
	if err != nil {
		t.Fatal(err)
	}
	known, err := f.has(fileServer)
	if err != nil {
		t.Fatal(err)
	}
	err = f.finishRestore(nil)
	f.close()
	if complete || known {
		if err != nil {
			t.Errorf("killed at %q: %v", at, err)
		}
		b.whole(t, conf, at)
		return
	}
	if !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "cut off") || !strings.Contains(mesh.Hint(err), "restore") {
		t.Errorf("killed at %q, serve says: %v", at, err)
	}
	if _, err := b.restoration(conf).Run(t.Context()); err != nil {
		t.Errorf("killed at %q, restored again: %v", at, err)
	}
	b.whole(t, conf, at)
}

// whole checks that the folder is one of a server, with nothing else in it.
func (b burnt) whole(t *testing.T, conf Config, at string) {
	t.Helper()
	f := &folder{dir: conf.Dir}
	k, err := f.load()
	if err != nil || k.Mesh != b.mesh {
		t.Errorf("killed at %q: %v", at, err)
	}
	for _, name := range restoredFiles() {
		if has, err := f.has(name); err != nil || !has {
			t.Errorf("killed at %q: %s is missing (%v)", at, name, err)
		}
	}
	for _, name := range []string{fileRestore, dirRestore} {
		if has, err := f.has(name); err != nil || has {
			t.Errorf("killed at %q: %s is left (%v)", at, name, err)
		}
	}
}

// TestWhatIsWrongWithABackupIsSaidBeforeAnythingIsWritten: G-06.
func TestWhatIsWrongWithABackupIsSaidBeforeAnythingIsWritten(t *testing.T) {
	b := burn(t)
	sealed := slices.DeleteFunc(slices.Sorted(maps.Keys(b.tree)), func(p string) bool { return !strings.HasPrefix(p, "devices/") || !strings.HasSuffix(p, ".age") })
	cases := []struct {
		name   string
		change func(backup.Files, *Restoration)
		kind   error
		parts  []string
	}{
		{"two files are bad", func(f backup.Files, _ *Restoration) {
			f[sealed[0]] = f[sealed[0]][:20]
			delete(f, "keys.age")
		}, mesh.ErrInvalid, []string{sealed[0], "keys.age"}},
		{"another root is asked for", func(_ backup.Files, x *Restoration) { x.Root[0]++ }, nil, []string{"root"}},
		{"the passphrase is wrong", func(_ backup.Files, x *Restoration) {
			x.Passphrase = func(context.Context) (mesh.Secret, error) { return "quite another passphrase", nil }
		}, mesh.ErrDenied, []string{"wrong passphrase"}},
		{"there is no passphrase", func(_ backup.Files, x *Restoration) { x.Passphrase = nil }, ErrSetup, []string{"no root passphrase"}},
		{"the folder is in use", func(_ backup.Files, x *Restoration) {
			if err := os.MkdirAll(x.Config.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(x.Config.Dir, fileServer), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, mesh.ErrConflict, []string{fileServer}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			conf := b.conf
			conf.Dir = filepath.Join(t.TempDir(), "data")
			bad := b.saved
			bad.tree = maps.Clone(b.tree)
			x := bad.restoration(conf)
			c.change(bad.tree, x)
			root := x.Root
			x.Read = func(ctx context.Context) (*backup.State, error) {
				return backup.Read(ctx, bad.tree, bad.ids, backup.ReadOptions{Root: root})
			}
			_, err := x.Run(t.Context())
			if err == nil || c.kind != nil && !errors.Is(err, c.kind) {
				t.Errorf("got %v; want %v", err, c.kind)
			}
			for _, p := range c.parts {
				if err != nil && !strings.Contains(err.Error(), p) {
					t.Errorf("%q is not in: %v", p, err)
				}
			}
			if c.kind != mesh.ErrConflict {
				nothingIn(t, conf.Dir)
			}
		})
	}
}

// TestAnUnsignedBackupIsRestoredOnDemandAlone: audit and an event say so. The epoch
// is above every one that is known of.
func TestAnUnsignedBackupIsRestoredOnDemandAlone(t *testing.T) {
	b := burn(t)
	delete(b.tree, "manifest.sig")
	x := b.restoration(b.conf)
	if _, err := x.Run(t.Context()); !errors.Is(err, mesh.ErrDenied) {
		t.Fatalf("not asked for: %v", err)
	}
	x.Seen = 5
	x.Read = func(ctx context.Context) (*backup.State, error) {
		return backup.Read(ctx, b.tree, b.ids, backup.ReadOptions{Root: b.root, Unsigned: true})
	}
	if _, err := x.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := start(b.conf, new(logBuffer), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.stop()
	cc := r.local(t)
	if e := call(t, admin.ConfigGet, cc, admin.None{}).Epoch; e != 6 {
		t.Errorf("epoch %d, want one above 5", e)
	}
	said := false
	for _, a := range call(t, admin.AuditList, cc, admin.AuditListRequest{}).Items {
		said = said || slices.ContainsFunc(a.Changes, func(c mesh.Change) bool { return c.Object == "unsigned-backup/"+x.From })
	}
	told := slices.ContainsFunc(call(t, admin.EventList, cc, admin.EventListRequest{}).Items, func(e mesh.Event) bool {
		return e.Type == mesh.EventMeshRestored && strings.Contains(e.Cause, "signature was not asked for")
	})
	if !said || !told {
		t.Errorf("audit says so: %v, an event: %v", said, told)
	}
}

func TestABackupWithoutSecretsIsRefusedWithWhatIsLost(t *testing.T) {
	w := getWorld(t)
	member, cell := w.home(t)
	call(t, admin.DeviceAdd, w.local(t), admin.DeviceAddRequest{Member: member, Name: unique("phone"), Cell: cell})
	for _, plain := range []bool{false, true} {
		s := w.save(t, func(s *backup.State) { s.Recipients, s.Plaintext = nil, plain })
		conf := testConfig(filepath.Join(t.TempDir(), "data"))
		_, err := s.restoration(conf).Run(t.Context())
		if !errors.Is(err, mesh.ErrInvalid) {
			t.Fatalf("restored: %v", err)
		}
		for _, part := range []string{"without a recipient", "the root of the mesh", "devices: each is given out anew"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in: %v", part, err)
			}
		}
		if strings.Contains(err.Error(), "all names") == plain {
			t.Errorf("plain %v: %v", plain, err)
		}
		nothingIn(t, conf.Dir)
	}
}

// TestABackupIsNotRestoredBesideALivingServer: the answer says that it lives, and
// that it may know more.
func TestABackupIsNotRestoredBesideALivingServer(t *testing.T) {
	w := getWorld(t)
	s := w.save(t)
	conf := testConfig(filepath.Join(t.TempDir(), "data"))
	_, err := s.restoration(conf).Run(t.Context())
	if !errors.Is(err, mesh.ErrConflict) || !strings.Contains(err.Error(), "of this mesh lives: it answers on "+w.addr.Mesh) || !strings.Contains(mesh.Hint(err), "mgmt recover") {
		t.Errorf("got %v, hint %q", err, mesh.Hint(err))
	}
	nothingIn(t, conf.Dir)
}

func TestObjectsThatCannotBeImportedAreAllNamed(t *testing.T) {
	w := getWorld(t)
	raws, _, err := w.store.Export(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.CheckObjects(raws, w.store.DataKeys()...); err != nil {
		t.Fatal(err)
	}
	if err := store.CheckObjects(raws, store.NewDataKey()); !errors.Is(err, mesh.ErrInvalid) || !strings.Contains(err.Error(), "do not open") {
		t.Errorf("under another data key: %v", err)
	}
	bad := slices.Clone(raws)
	bad[0].Value, bad[1].Value = []byte("{"), []byte(`{"schema":9,"minReader":9}`)
	err = store.CheckObjects(bad, w.store.DataKeys()...)
	for _, o := range bad[:2] {
		if err == nil || !strings.Contains(err.Error(), o.Folder+"/"+o.ID) {
			t.Errorf("%s/%s is not named: %v", o.Folder, o.ID, err)
		}
	}
}
