package mgmt

import (
	"crypto"
	"crypto/x509"
	"errors"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// keys are what the data folder holds of the mesh, but for the server's own
// node identity.
type keys struct {
	serverFile
	root         *x509.Certificate
	rootSealed   []byte
	intermediate *x509.Certificate
	key          crypto.Signer // of intermediate
	etcd         *ca.EtcdCA
	data         [][32]byte // the first seals

	forming *formation // nil: no founding or joining is under way
	cluster string     // members of etcd, when it begins by joining them
}

// load reads the folder of a server that has been founded. Every fault names
// its file.
func (f *folder) load() (*keys, error) {
	k := new(keys)
	for _, file := range []struct {
		name  string
		parse func([]byte) error
	}{
		{fileServer, k.parse},
		{fileEtcdCA, func(b []byte) (err error) { k.etcd, err = ca.ParseEtcdCA(mesh.Secret(b)); return err }},
		{fileRootSealed, func(b []byte) error { k.rootSealed = b; return notEmpty(b) }},
		{fileRootCert, func(b []byte) (err error) { k.root, err = ca.ParseCert(b); return err }},
		{fileIntermediateKey, func(b []byte) (err error) { k.key, err = ca.ParseKey(mesh.Secret(b)); return err }},
		{fileIntermediate, k.parseIntermediate},
	} {
		if err := f.read(file.name, file.parse); err != nil {
			return nil, err
		}
	}
	var err error
	k.data, err = store.ReadDataKeys(f.path(fileDataKey))
	return k, setup(err)
}

func (k *keys) parseIntermediate(b []byte) error {
	c, err := ca.ParseCert(b)
	if err != nil {
		return err
	}
	if c.CheckSignatureFrom(k.root) != nil {
		return errors.New("it is not signed by the root in " + fileRootCert)
	}
	k.intermediate = c
	return nil
}

func notEmpty(b []byte) error {
	if len(b) == 0 {
		return errors.New("it is empty")
	}
	return nil
}
