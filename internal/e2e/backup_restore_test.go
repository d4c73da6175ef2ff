package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// long bounds what takes nodes that have to find management again: they wait up
// to 45 s between two tries after a long outage.
const long = 3 * time.Minute

// backedUp is a mesh with backups to several remotes, and what its operator keeps.
type backedUp struct {
	*dev.Mesh
	remotes  []gitRemote
	identity string // file
	root     string

	seen, unseen client
	open         *tunnel // of seen
	echo         string
}

// admin runs an administrator's command against a server.
func (b *backedUp) admin(t *testing.T, args ...string) outcome {
	t.Helper()
	o := command{args: append(append([]string{"admin"}, args...), "--socket", b.SocketPath())}.runWithin(t, long)
	return o.want(t, exitOK)
}

// backUp sets backups up as an operator does.
func backUp(t *testing.T, m *dev.Mesh, remotes ...gitRemote) *backedUp {
	t.Helper()
	b := &backedUp{Mesh: m, remotes: remotes, identity: filepath.Join(t.TempDir(), "safe.key")}
	b.admin(t, "backup", "recipient", "new", "safe", "--out", b.identity)
	for _, r := range remotes {
		b.admin(t, append([]string{"backup", "remote", "add", r.name, r.url}, r.add...)...)
	}
	var kit struct {
		Root string `json:"rootSHA256"`
	}
	meshctl(t, "mgmt", "recovery-kit", "--config", filepath.Join(m.Mgmt.Dir, "config.yaml"), "-o", "json").decode(t, &kit)
	b.root = kit.Root
	return b
}

// read reads and verifies the newest backup of a remote.
func (b *backedUp) read(t *testing.T, r gitRemote) *backup.State {
	t.Helper()
	c, err := repo.Clone(t.Context(), repo.Remote{Name: "test", URL: r.dir, Auth: mesh.BackupAuthNone}, "", 1, repo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tree, err := c.Tree(c.Head())
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(b.identity)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := backup.ParseIdentities(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	root, err := hex.DecodeString(b.root)
	if err != nil {
		t.Fatal(err)
	}
	state, err := backup.Read(t.Context(), tree, ids, backup.ReadOptions{Root: [32]byte(root)})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// digestOf names what a backup says of some folders.
func digestOf(t *testing.T, s *backup.State, folders ...string) (string, int) {
	t.Helper()
	h, n := sha256.New(), 0
	inOrder := slices.SortedFunc(slices.Values(s.Objects), func(a, b backup.Object) int { return strings.Compare(a.Name(), b.Name()) })
	for _, o := range inOrder {
		if !slices.Contains(folders, o.Folder) {
			continue
		}
		text, err := backup.Canonical(o.JSON)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%s %s\n", o.Name(), text)
		n++
	}
	return hex.EncodeToString(h.Sum(nil)), n
}

// burn takes all servers away, with everything they had, and returns when.
func (b *backedUp) burn(t *testing.T) time.Time {
	t.Helper()
	for _, s := range b.Servers {
		kill(t, s)
	}
	for _, s := range b.Servers {
		if err := os.RemoveAll(filepath.Join(s.Dir, "data")); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"bootstrap-expect", "bootstrap-secret-file", "peers"} {
			delete(s.Config, key)
		}
	}
	burnt := time.Now()
	if err := b.open.echo(setupTime); err != nil {
		t.Errorf("the open connection, with all servers gone: %v", err)
	}
	return burnt
}

// restore brings the first server back from a remote.
func (b *backedUp) restore(t *testing.T, r gitRemote, more ...string) outcome {
	t.Helper()
	s := b.Servers[0]
	// Start writes the configuration too, but it starts the server.
	config := filepath.Join(t.TempDir(), "config.yaml")
	text, err := json.Marshal(s.Config) // which is YAML too
	if err != nil {
		t.Fatal(err)
	}
	writePrivate(t, config, string(text))
	args := append([]string{"mgmt", "restore", "--config", config, "--from", r.url, "--identity", b.identity, "--root", b.root, "--yes"}, r.restore...)
	return command{args: append(args, more...), env: os.Environ()}.runWithin(t, long)
}

// grow lets the other servers in again.
func (b *backedUp) grow(t *testing.T) {
	t.Helper()
	for _, s := range b.Servers[1:] {
		passphrase, _ := s.Config["passphrase-file"].(string)
		add := command{args: []string{"admin", "mgmt", "add", s.Name, "--passphrase-file", passphrase, "--socket", b.SocketPath()}}.start(t)
		var token string
		eventually(t, patience, "a token for "+s.Name, func() error {
			line, _, whole := strings.Cut(add.out.String(), "\n")
			if !whole {
				return fmt.Errorf("%q", add.out)
			}
			token = line
			return nil
		})
		s.Config["token-file"] = secretFile(t, token)
		if err := b.Start(s); err != nil {
			t.Fatal(err)
		}
		eventually(t, long, s.Name+" is let in", func() error {
			if !add.over() {
				return fmt.Errorf("%s", add.out)
			}
			return nil
		})
		if code := add.ended(t); code != exitOK {
			t.Fatalf("let %s in: exit code %d:\n%s", s.Name, code, add.out)
		}
	}
}

// connected says whether every core and entry has its stream and every core is
// ready.
func (b *backedUp) connected(t *testing.T) error {
	for _, c := range b.Cores {
		if err := coreReady(t, b.Mesh, c.Name); err != nil {
			return err
		}
	}
	for _, e := range b.Entries {
		v, err := tryCall(t, b.Mesh, admin.EntryGet, admin.Ref{Ref: e.Name})
		if err != nil || v.Status == nil || !v.Status.Connected {
			return fmt.Errorf("%s is not connected: %w", e.Name, err)
		}
	}
	return nil
}

// restored are the folders of which nothing may be lost or changed.
var restoredFolders = []string{"members", "devices", "cells", "entries", "admins"}

// TestAMeshBurnsAndComesBack wipes all three servers and brings the mesh back from
// one of three remotes (G-05). Nodes get no new token, a client's open connection
// is not cut, and what the mesh knows is what it knew.
func TestAMeshBurnsAndComesBack(t *testing.T) {
	remotes := []gitRemote{pathRemote(t), sshRemote(t), httpsRemote(t)}
	b := burningMesh(t, remotes...)
	secrets := b.planted(t)
	b.admin(t, "token", "create", "--role", "entry", "--name", "never-came")
	b.admin(t, "backup", "run", "--wait")
	before := b.read(t, remotes[0])
	for _, r := range remotes[1:] {
		if was, is := before.Revision, b.read(t, r).Revision; was != is {
			t.Errorf("%s holds revision %d, want %d", r.name, is, was)
		}
	}
	burnt := b.burn(t)
	r := remotes[len(remotes)-1]
	o := b.restore(t, r).want(t, exitOK, string(before.Mesh), "silent at", "1 unused, will be cancelled", "restored in")
	t.Logf("restored %d objects %v after the fire:\n%s%s", len(before.Objects), time.Since(burnt), o.stderr, o.stdout)
	b.restore(t, r).refused(t, exitFailure, "not empty").hinted(t, "empty folder")
	b.serves(t, burnt)
	b.checkBack(t, before)
	for _, r := range remotes {
		secrets.hidden(t, r)
	}
}

// burningMesh is a mesh with two devices, one of which has an open connection.
func burningMesh(t *testing.T, remotes ...gitRemote) *backedUp {
	t.Helper()
	b := backUp(t, newMesh(t, dev.Settings{Servers: 3, Cores: 2, Entries: 2}), remotes...)
	b.seen, b.unseen, b.echo = addDevice(t, b.Mesh, "seen"), addDevice(t, b.Mesh, "unseen"), echoServer(t)
	b.open = b.seen.mustConnect(t, b.EntryAddresses[0], b.echo)
	return b
}

// serves starts the restored server, waits for nodes and client, and grows.
func (b *backedUp) serves(t *testing.T, burnt time.Time) {
	t.Helper()
	if err := b.Start(b.Servers[0]); err != nil {
		t.Fatal(err)
	}
	ready(t, b.Servers[0])
	t.Logf("the first server serves %v after the fire", time.Since(burnt))
	eventually(t, long, "cores and entries are back", func() error {
		b.Admin.ResetConnectBackoff()
		return b.connected(t)
	})
	t.Logf("all nodes are back %v after the fire", time.Since(burnt))
	// Once they all have certificates of the server that is there now, those of the
	// servers of before are revoked, and what was opened with them ends.
	if err := b.open.echo(setupTime); err != nil {
		t.Errorf("the open connection, afterwards: %v", err)
	}
	eventually(t, long, "a client that no entry had seen is served", func() error {
		return b.unseen.tryEcho(t.Context(), b.EntryAddresses[0], b.echo)
	})
	t.Logf("a client that no entry had seen is served %v after the fire", time.Since(burnt))
	b.grow(t)
	eventually(t, long, "any server may fail again", func() error {
		s, err := tryCall(t, b.Mesh, admin.ServerStatusGet, admin.None{})
		if err == nil && !s.HighlyAvailable {
			err = fmt.Errorf("%s", s.Availability)
		}
		return err
	})
	t.Logf("three servers %v after the fire", time.Since(burnt))
}

// nothingLost looks for every object of before: records are as they were, and what
// goes on changing is there.
func (b *backedUp) nothingLost(t *testing.T, before, after *backup.State) {
	t.Helper()
	now := map[string][]byte{}
	for _, o := range after.Objects {
		now[o.Name()] = o.JSON
	}
	for _, o := range before.Objects {
		text, there := now[o.Name()]
		switch {
		case o.Folder == "ca" && (strings.HasPrefix(o.ID, "gossip") || strings.HasPrefix(o.ID, "request.")): // of the servers of before
		case !there:
			t.Errorf("%s is lost", o.Name())
		case (o.Folder == "certs" || o.Folder == "revocations") && !bytes.Equal(text, o.JSON):
			t.Errorf("%s was %s, is %s", o.Name(), o.JSON, text)
		}
	}
}

// checkBack compares what the mesh backs up now with what it was restored from.
func (b *backedUp) checkBack(t *testing.T, before *backup.State) {
	t.Helper()
	b.admin(t, "backup", "run", "--wait")
	after := b.read(t, b.remotes[0])
	if after.Mesh != before.Mesh || after.Epoch != before.Epoch+1 {
		t.Errorf("%s in epoch %d has become %s in epoch %d", before.Mesh, before.Epoch, after.Mesh, after.Epoch)
	}
	was, n := digestOf(t, before, restoredFolders...)
	is, m := digestOf(t, after, restoredFolders...)
	t.Logf("digest %s of %d objects, was %s of %d", is[:16], m, was[:16], n)
	if was != is || n != m {
		t.Error("the state is another than before")
	}
	b.nothingLost(t, before, after)
	if !bytes.Equal(after.Keys.SealedRoot, before.Keys.SealedRoot) || !slices.Equal(after.Keys.Data, before.Keys.Data) {
		t.Error("the keys are others than before")
	}
	removed := 0
	for _, s := range call(t, b.Mesh, admin.MgmtList, admin.Page{}).Items {
		if s.State == mesh.ServerRemoved {
			removed++
		}
	}
	if removed != 3 {
		t.Errorf("%d servers are removed, want those of before", removed)
	}
	found := false
	for _, a := range call(t, b.Mesh, admin.AuditList, admin.AuditListRequest{}).Items {
		found = found || a.Action == "mesh.restore"
	}
	if !found {
		t.Error("audit does not know of the restore")
	}
	// A core joins the mesh that came back.
	tok := call(t, b.Mesh, admin.TokenCreate, admin.TokenCreateRequest{Role: mesh.RoleCore, Name: "late", Member: dev.MemberName, Cell: dev.CellName})
	enrollOnly(t, tok.Token, filepath.Join(t.TempDir(), "core")).want(t, exitOK, "joined as")
}
