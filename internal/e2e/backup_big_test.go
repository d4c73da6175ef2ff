package e2e

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// What a big mesh has beside the nodes that run.
const (
	bigDevices = 10_000
	bigCores   = 200
)

// TestABigMeshBurnsAndComesBack restores 10,000 devices and 200 cores, of which two
// run, as do two entries. The crowd is put into a backup of a small mesh, which a
// server of it signs, since making it one call after the other takes a quarter of
// an hour. It is for `make e2e-restore`, MESHCTL_RESTORE=big.
func TestABigMeshBurnsAndComesBack(t *testing.T) {
	if os.Getenv("MESHCTL_RESTORE") != "big" {
		t.Skip("it takes minutes: make e2e-restore")
	}
	b := burningMesh(t, pathRemote(t))
	b.admin(t, "backup", "run", "--wait")
	before := b.crowd(t, b.read(t, b.remotes[0]))
	big := pathRemote(t)
	b.publish(t, before, big)
	burnt := b.burn(t)
	// The cores that never run are not waited for long.
	o := b.restore(t, big, "--collect", "20s").want(t, exitOK, "10003 devices", "200 cores")
	t.Logf("restored %d objects %v after the fire:\n%s%s", len(before.Objects), time.Since(burnt), o.stderr, o.stdout)
	b.serves(t, burnt)
	b.checkBack(t, before)
}

// crowd adds members of a crowd to what a backup says.
func (b *backedUp) crowd(t *testing.T, s *backup.State) *backup.State {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{Endpoints: []string{"http://127.0.0.1:1"}, DataKeys: s.Keys.Data}) // it only seals
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	at := slices.IndexFunc(s.Objects, func(o backup.Object) bool { return o.Folder == "devices" })
	like, err := codec.Decode[mesh.Device](s.Objects[at].JSON)
	if err != nil {
		t.Fatal(err)
	}
	add := func(folder, id string, v any) {
		text, err := codec.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		s.Objects = append(s.Objects, backup.Object{Folder: folder, ID: id, JSON: text})
	}
	for i := range bigDevices {
		d := like
		d.ID, d.Name = mesh.NewDeviceID(), fmt.Sprintf("device %d", i)
		d.Labels, d.HiddenLabel = []mesh.Label{{Label: mesh.NewLabel()}}, mesh.NewLabel()
		if d.Secret, err = st.Seal(store.DeviceSecretPlace(d.ID), mesh.NewSecret(20)); err != nil {
			t.Fatal(err)
		}
		add("devices", string(d.ID), d)
	}
	for i := range bigCores - len(b.Cores) {
		id := mesh.NewCoreID()
		add("cores", string(id), mesh.Core{
			ID: id, Name: fmt.Sprintf("crowd %d", i), Member: like.Member, Cell: like.Assigned.Cell, State: mesh.CoreJoined, Joined: like.Created,
		})
	}
	return s
}

// publish writes a backup into a repository, signed as the first server would.
func (b *backedUp) publish(t *testing.T, s *backup.State, to gitRemote) {
	t.Helper()
	key, err := ca.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := b.authority(t, s.Mesh).IssueBackup(key.Public(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r := backup.Renderer{Signer: key}
	for _, d := range der {
		c, err := x509.ParseCertificate(d)
		if err != nil {
			t.Fatal(err)
		}
		r.Chain = append(r.Chain, c)
	}
	dir := t.TempDir()
	_, err = r.Draft(t.Context(), backup.Files{}, *s, nil, func(f backup.File) error {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, f.Data, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
	git := need(t, "git", "git")
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"}, {"add", "--all"},
		{"-c", "user.name=test", "-c", "user.email=test@example.net", "commit", "--quiet", "--message=Backup of the whole state"},
		{"push", "--quiet", to.dir, "main"},
	} {
		if text, err := exec.Command(git, append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, text)
		}
	}
}

// authority is the CA of the first server, from its data folder.
func (b *backedUp) authority(t *testing.T, m mesh.ID) *ca.Authority {
	t.Helper()
	file := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(b.Servers[0].Dir, "data", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var server struct {
		Server mesh.ServerID `json:"server"`
	}
	root, err := ca.ParseCert(file("root.crt"))
	intermediate, err2 := ca.ParseCert(file("intermediate.crt"))
	key, err3 := ca.ParseKey(mesh.Secret(file("intermediate.key")))
	if err := errors.Join(err, err2, err3, json.Unmarshal(file("server.json"), &server)); err != nil {
		t.Fatal(err)
	}
	a, err := ca.New(ca.Config{Mesh: m, Server: server.Server, Root: root, Intermediate: intermediate, Key: key, Records: noRecords{}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// noRecords is for an authority that issues nothing that goes on record: it is not
// asked.
type noRecords struct{ ca.Records }
