package mgmt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// makeRoot makes the mesh's root, and promises it to itself before anybody else
// hears of it.
func (x *former) makeRoot(ctx context.Context) error {
	secret, err := x.folder.askPassphrase(ctx, x.srv.Passphrase)
	if err != nil {
		return err
	}
	<-x.turn
	defer func() { x.turn <- struct{}{} }()
	if x.state.Promise != nil {
		return nil // somebody else was promised meanwhile
	}
	id := mesh.NewID()
	root, err := ca.NewRoot(id, x.now())
	if err != nil {
		return err
	}
	sealed, err := root.Seal([]byte(secret.Reveal()))
	if err != nil {
		return err
	}
	x.root = root
	if err := errors.Join(x.folder.write(fileRootSealed, sealed), x.folder.write(fileRootCert, ca.MarshalCert(root.Cert()))); err != nil {
		return err
	}
	if err := x.step("root"); err != nil {
		return err
	}
	sum := sha256.Sum256(root.Cert().Raw)
	x.state.Promise = &promise{
		Founder: x.state.Server, Name: x.state.Name, Mesh: id, RootHash: sum[:], Addresses: x.addresses, At: x.now().UTC(),
	}
	return x.save("promised to itself")
}

// found asks the others for their promise, signs their intermediates, and makes
// the mesh once all have given it.
func (x *former) found(ctx context.Context) (*keys, error) {
	all, why := x.expected(ctx)
	if why != "" {
		x.say(why)
		return nil, nil
	}
	promises := make([]*controlpb.Joiner, 0, len(all)-1)
	for _, m := range all {
		if m.Server == x.state.Server {
			continue
		}
		j, err := x.ask(ctx, m)
		if err != nil {
			x.say(fmt.Sprintf("server %q: %v", m.Name, err))
			return nil, nil
		}
		promises = append(promises, j)
		if err := x.step("asked " + m.Name); err != nil {
			return nil, err
		}
	}
	if err := x.plan(ctx, promises); err != nil {
		return nil, err
	}
	return x.loaded(nil, "")
}

// plan signs for everybody while the root is open, and writes all keys, and
// server.json last.
func (x *former) plan(ctx context.Context, joiners []*controlpb.Joiner) error {
	root, err := x.openRoot(ctx)
	if err != nil {
		return err
	}
	now := x.now()
	x.state.Others = nil
	for _, j := range joiners {
		s, key, err := serverOf(j, now)
		if err != nil {
			return err
		}
		cert, err := root.Intermediate(s.ID, key, now)
		if err != nil {
			return err
		}
		x.state.Others = append(x.state.Others, planned{s, ca.MarshalCert(cert)})
	}
	if err := x.save("planned"); err != nil {
		return err
	}
	own, err := root.Intermediate(x.state.Server, x.key.Public(), now)
	if err != nil {
		return err
	}
	etcd, err := ca.NewEtcdCA(x.state.Promise.Mesh, now)
	if err != nil {
		return err
	}
	text, err := etcd.Marshal()
	if err != nil {
		return err
	}
	epoch, err := firstEpoch(root, now)
	if err != nil {
		return err
	}
	if err := x.putDataKey(store.NewDataKey()); err != nil {
		return err
	}
	return x.writeKeys(map[string][]byte{
		fileEtcdCA: []byte(text.Reveal()), fileIntermediate: ca.MarshalCert(own), fileEpoch: epoch,
	})
}

// putDataKey replaces what an attempt before this one has left: nothing is
// sealed under it.
func (x *former) putDataKey(key [32]byte) error {
	path := x.folder.path(fileDataKey)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return setup(err)
	}
	return setup(store.WriteDataKey(path, key))
}

// writeKeys writes key files and server.json last.
func (x *former) writeKeys(files map[string][]byte) error {
	for _, name := range []string{fileEtcdCA, fileRootSealed, fileRootCert, fileIntermediate, fileEpoch} {
		if b, ok := files[name]; ok {
			if err := x.folder.write(name, b); err != nil {
				return err
			}
		}
	}
	if err := x.step("keys"); err != nil {
		return err
	}
	if err := x.folder.writeJSON(fileServer, serverFile{Mesh: x.meshID(), Server: x.state.Server, Made: x.now().UTC()}); err != nil {
		return err
	}
	return x.step("founded")
}

// openRoot asks for the passphrase again when the process that made the root is
// gone.
func (x *former) openRoot(ctx context.Context) (*ca.Root, error) {
	if x.root != nil {
		return x.root, nil
	}
	const withdraw = "withdraw the founding on every server and begin again: meshctl mgmt abandon-founding"
	sealed, err := os.ReadFile(x.folder.path(fileRootSealed))
	if err != nil {
		return nil, setupf(withdraw, "read the root: %w", err)
	}
	text, err := os.ReadFile(x.folder.path(fileRootCert))
	if err != nil {
		return nil, setupf(withdraw, "read the root: %w", err)
	}
	cert, err := ca.ParseCert(text)
	if err != nil {
		return nil, setup(err)
	}
	secret, err := x.folder.askPassphrase(ctx, x.srv.Passphrase)
	if err != nil {
		return nil, err
	}
	root, err := ca.OpenRoot(sealed, cert, []byte(secret.Reveal()))
	if err != nil {
		return nil, setupf("give the passphrase that this founding began with, or withdraw it on every server: meshctl mgmt abandon-founding", "go on founding: %w", err)
	}
	return root, nil
}
