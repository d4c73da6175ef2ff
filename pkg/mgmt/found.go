package mgmt

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Founding on one server and resuming, by what the folder holds:
//
//	nothing of ours         ─▶ found: ask for the passphrase, write the keys,
//	                           and server.json last
//	keys, no server.json    ─▶ refused: the founding was cut off before anything
//	                           was served; the way out is to empty the folder
//	server.json             ─▶ resume
//	… and no founded.json,
//	    no node certificate ─▶ etcd may begin anew: the founding goes on by itself
//	… and either of them    ─▶ etcd's data has to be there, or the start is
//	                           refused: never a fresh mesh under an old name

// foundOrResume returns the keys of the mesh, made now when there are none.
func (f *folder) foundOrResume(ctx context.Context, passphrase func(context.Context) (mesh.Secret, error), now time.Time) (*keys, error) {
	known, err := f.has(fileServer)
	if err != nil {
		return nil, err
	}
	if !known {
		if err := f.refuseHalf(); err != nil {
			return nil, err
		}
		if err := f.found(ctx, passphrase, now); err != nil {
			return nil, err
		}
	}
	k, err := f.load()
	if err != nil {
		return nil, err
	}
	return k, f.refuseLost()
}

// refuseHalf refuses a folder that has keys and no server.json.
func (f *folder) refuseHalf() error {
	used, err := f.used()
	if err != nil {
		return err
	}
	data, err := f.has(etcdData)
	switch {
	case err != nil:
		return err
	case used || data:
		return setupf("restore the file from a backup; the mesh's state and keys are still there, so do not found another one over them",
			"file %s is missing in a folder that has served a mesh", f.path(fileServer))
	}
	for _, name := range keyFiles {
		half, err := f.has(name)
		switch {
		case err != nil:
			return err
		case half:
			return setupf("nothing has been served from it: empty the folder and start again: rm -r "+f.dir,
				"data folder %s holds a founding that did not finish", f.dir)
		}
	}
	return nil
}

// etcdData is there once etcd has begun.
var etcdData = filepath.Join(dirEtcd, "member", "wal")

// used says whether the server has got as far as serving.
func (f *folder) used() (bool, error) {
	if founded, err := f.has(fileFounded); err != nil || founded {
		return founded, err
	}
	if node, err := f.has(dirNode); err != nil || !node {
		return false, err
	}
	node, err := identity.OpenFolder(f.path(dirNode))
	if err != nil {
		return false, setup(err)
	}
	if _, err := node.Load(); err != nil && !errors.Is(err, mesh.ErrNotFound) {
		return false, setup(err)
	} else if err != nil {
		return false, nil
	}
	return true, nil
}

// refuseLost refuses to start an empty etcd where one has been before.
func (f *folder) refuseLost() error {
	data, err := f.has(etcdData)
	if err != nil || data {
		return err
	}
	used, err := f.used()
	if err != nil || !used {
		return err
	}
	return setupf("restore "+f.path(dirEtcd)+" from a backup; to give this server up, empty the whole folder",
		"etcd's data is gone from %s, where this server has kept a mesh", f.path(dirEtcd))
}

// found makes a mesh: its root, etcd's CA, the data key, and this server's
// issuer. The root's key is in the clear only here.
func (f *folder) found(ctx context.Context, passphrase func(context.Context) (mesh.Secret, error), now time.Time) error {
	secret, err := f.askPassphrase(ctx, passphrase)
	if err != nil {
		return err
	}
	server := serverFile{Mesh: mesh.NewID(), Server: mesh.NewServerID(), Made: now.UTC()}
	files, err := makeKeys(server, secret, now)
	if err != nil {
		return err
	}
	if err := store.WriteDataKey(f.path(fileDataKey), store.NewDataKey()); err != nil {
		return setup(err)
	}
	for _, name := range append(keyFiles[1:], fileEpoch) {
		if err := f.write(name, files[name]); err != nil {
			return err
		}
	}
	return f.writeJSON(fileServer, server)
}

func (f *folder) askPassphrase(ctx context.Context, ask func(context.Context) (mesh.Secret, error)) (mesh.Secret, error) {
	if ask == nil {
		return "", setupf("start it where a passphrase can be asked for, or name a file that holds one", "found a mesh in %s: no root passphrase", f.dir)
	}
	secret, err := ask(ctx)
	if err != nil {
		return "", fmt.Errorf("mgmt: found a mesh: root passphrase: %w", err)
	}
	if n := len(secret.Reveal()); n < ca.MinPassphrase {
		return "", setupf("use several random words, and keep them off this server", "found a mesh: the root passphrase has %d bytes, at least %d are needed", n, ca.MinPassphrase)
	}
	return secret, nil
}

// makeKeys returns the content of every key file but the data key's.
func makeKeys(s serverFile, passphrase mesh.Secret, now time.Time) (map[string][]byte, error) {
	root, err := ca.NewRoot(s.Mesh, now)
	if err != nil {
		return nil, err
	}
	sealed, err := root.Seal([]byte(passphrase.Reveal()))
	if err != nil {
		return nil, err
	}
	files, err := serverKeys(root, s, now)
	if err != nil {
		return nil, err
	}
	files[fileRootSealed] = sealed
	files[fileEpoch], err = firstEpoch(root, now)
	return files, err
}

// serverKeys are the key files of one server: its own issuer, a new CA of
// etcd's, and the root's certificate.
func serverKeys(root *ca.Root, s serverFile, now time.Time) (map[string][]byte, error) {
	key, err := ca.NewKey()
	if err != nil {
		return nil, err
	}
	keyText, err := ca.MarshalKey(key)
	if err != nil {
		return nil, err
	}
	intermediate, err := root.Intermediate(s.Server, key.Public(), now)
	if err != nil {
		return nil, err
	}
	etcd, err := ca.NewEtcdCA(s.Mesh, now)
	if err != nil {
		return nil, err
	}
	etcdText, err := etcd.Marshal()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		fileEtcdCA:          []byte(etcdText.Reveal()),
		fileRootCert:        ca.MarshalCert(root.Cert()),
		fileIntermediateKey: []byte(keyText.Reveal()),
		fileIntermediate:    ca.MarshalCert(intermediate),
	}, nil
}
