package cmd

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshctl/meshctl/pkg/audit"
	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// scribe makes backups of a mesh of its own, as a server would, in a repository
// that scripts then read.
type scribe struct {
	renderer backup.Renderer
	state    backup.State
	audit    []backup.Object
	last     mesh.AuditSegment // of the chain over them
	made     time.Time
}

// writeBackup is the script command
//
//	backup REPOSITORY ACTION FOLDER/ID [JSON]
//
// which commits one change: the object is what JSON says, or gone. It sets ROOT,
// and leaves the identity that opens the backup in backup.key. The change
// "auditchain" is a link over the audit records that none covers yet.
func writeBackup(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: backup REPOSITORY ACTION FOLDER/ID [JSON]")
	}
	s := ts.Value("scribe").(*scribe)
	if s.renderer.Signer == nil {
		ts.Check(s.begin(ts.MkAbs("backup.key"), args[0]))
		sum := sha256.Sum256(s.renderer.Chain[2].Raw)
		ts.Setenv("ROOT", hex.EncodeToString(sum[:]))
	}
	text := ""
	if len(args) == 4 {
		text = args[3]
	}
	if args[2] == audit.FolderChain {
		ts.Check(s.link())
	} else {
		ts.Check(s.change(args[1], args[2], text))
	}
	ts.Check(s.push(context.Background(), args[0]))
}

// begin founds the mesh, and makes an empty repository and an identity.
func (s *scribe) begin(keyFile, dir string) error {
	if out, err := exec.Command("git", "init", "-q", "--bare", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("git init: %w: %s", err, out)
	}
	public, identity, err := backup.NewVerifyIdentity()
	if err != nil {
		return err
	}
	if err := os.WriteFile(keyFile, []byte(identity.Reveal()+"\n"), 0o600); err != nil {
		return err
	}
	m, server, now := mesh.NewID(), mesh.NewServerID(), time.Now().Add(-24*time.Hour)
	root, err := ca.NewRoot(m, now)
	if err != nil {
		return err
	}
	key, err := ca.NewKey()
	if err != nil {
		return err
	}
	intermediate, err := root.Intermediate(server, key.Public(), now)
	if err != nil {
		return err
	}
	authority, err := ca.New(ca.Config{Mesh: m, Server: server, Root: root.Cert(), Intermediate: intermediate, Key: key, Records: struct{ ca.Records }{}})
	if err != nil {
		return err
	}
	leafKey, err := ca.NewKey()
	if err != nil {
		return err
	}
	chain, err := authority.IssueBackup(leafKey.Public(), now)
	if err != nil {
		return err
	}
	s.renderer.Signer = leafKey
	for _, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		s.renderer.Chain = append(s.renderer.Chain, c)
	}
	s.made = now
	s.state = backup.State{
		Mesh: m, Epoch: 1, Leader: 3,
		Keys:       backup.Keys{Data: [][32]byte{{1}}, SealedRoot: []byte("sealed root"), Root: ca.MarshalCert(root.Cert())},
		Recipients: []backup.Recipient{{Name: "safe", Key: public}},
	}
	return nil
}

// change is one change an hour, on record as an administrator's.
func (s *scribe) change(action, object, text string) error {
	folder, id, _ := strings.Cut(object, "/")
	before := map[string]any(nil)
	s.state.Objects = slices.DeleteFunc(s.state.Objects, func(o backup.Object) bool {
		if o.Name() != object {
			return false
		}
		return json.Unmarshal(o.JSON, &before) == nil
	})
	after := map[string]any(nil)
	if text != "" {
		if err := json.Unmarshal([]byte(text), &after); err != nil {
			return err
		}
		stored := map[string]any{"schema": 1, "minReader": 1, "id": id}
		maps.Copy(stored, after)
		data, err := json.Marshal(stored)
		if err != nil {
			return err
		}
		s.state.Objects = append(s.state.Objects, backup.Object{Folder: folder, ID: id, JSON: data})
	}
	s.made = s.made.Add(time.Hour)
	s.state.Time, s.state.Revision = s.made.UTC().Truncate(time.Second), s.state.Revision+10
	rec := mesh.AuditRecord{
		ID: store.NewTimeID(s.made), Time: s.made, Actor: "admin:admin-aaaaaaaaaaaaaaaa", Action: action,
		Changes: []mesh.Change{{Object: backup.KindOf(folder) + "/" + id, Before: before, After: after}},
	}
	data, err := json.Marshal(rec)
	s.audit = append(s.audit, backup.Object{Folder: backup.FolderAudit, ID: rec.ID, JSON: data})
	return err
}

// link chains the records that no link covers yet.
func (s *scribe) link() error {
	var records []audit.Record
	for _, o := range s.audit {
		if o.ID > s.last.Through {
			records = append(records, audit.Record{ID: o.ID, JSON: o.JSON})
		}
	}
	next, err := audit.Link(s.last, records, s.made)
	if err != nil {
		return err
	}
	s.last = next
	s.state.Revision++
	data, err := json.Marshal(next)
	s.state.Objects = append(s.state.Objects, backup.Object{Folder: audit.FolderChain, ID: next.ID, JSON: data})
	return err
}

func (s *scribe) records(after string) iter.Seq2[backup.Object, error] {
	return func(yield func(backup.Object, error) bool) {
		for _, o := range s.audit {
			if o.ID > after && !yield(o, nil) {
				return
			}
		}
	}
}

func (s *scribe) push(ctx context.Context, dir string) (err error) {
	remote := repo.Remote{Name: "disk", URL: dir, Auth: mesh.BackupAuthNone}
	r, err := repo.Open(ctx, filepath.Join(filepath.Dir(dir), "clone.git"), repo.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	base := backup.Tree(backup.Files{})
	meta := repo.Meta{When: s.state.Time}
	if head := r.Head(); head != "" {
		meta.Parents = []repo.ID{head}
		if base, err = r.Tree(head); err != nil {
			return err
		}
	}
	d, err := r.Begin(r.Head())
	if err != nil {
		return err
	}
	sum, err := s.renderer.Draft(ctx, base, s.state, s.records, func(f backup.File) error { return d.Put(ctx, f) })
	if err != nil {
		return err
	}
	meta.Message = sum.Message()
	meta.Trailers = []repo.Trailer{{Key: repo.TrailerEpoch, Value: "1.3"}}
	id, err := d.Commit(ctx, meta)
	if err != nil {
		return err
	}
	return r.Push(ctx, remote, id, func(context.Context) error { return nil })
}
