package mgmt

import (
	"crypto"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// formation is how far this server has come on its way into a mesh of several.
// It is written before each step and removed when the server is a member of a
// mesh that is complete, so that whoever is killed goes on where it was.
//
//	founder   begun ─▶ root made, promised to itself ─▶ all have promised:
//	          all keys, server.json ─▶ serves ─▶ the others are in
//	others    begun ─▶ promised ─▶ handed over: all keys, server.json ─▶
//	          etcd learns ─▶ etcd votes
//	by token  begun with a certificate ─▶ handed over …
type formation struct {
	Server mesh.ServerID `json:"server"`
	Name   string        `json:"name"`
	Made   time.Time     `json:"made"`
	// Promise is to one founder and one mesh, and is never forgotten by itself.
	Promise *promise `json:"promise,omitzero"`
	// Others are who founded the mesh together with this server, the founder.
	Others []planned `json:"others,omitzero"`
	// Token: where the mesh is that this server came to with a join token.
	Token *origin `json:"token,omitzero"`
}

// promise is to take part in one founding and in no other.
type promise struct {
	Founder   mesh.ServerID `json:"founder"`
	Name      string        `json:"name"` // the founder's
	Mesh      mesh.ID       `json:"mesh"`
	RootHash  []byte        `json:"rootHash"`
	Addresses []string      `json:"addresses"` // the founder's mesh port
	At        time.Time     `json:"at"`
}

// same says whether two promises are one.
func (p promise) same(o promise) bool {
	return p.Founder == o.Founder && p.Mesh == o.Mesh && string(p.RootHash) == string(o.RootHash)
}

// origin is the mesh that a join token was of.
type origin struct {
	Addresses []string `json:"addresses"`
}

// planned is a server that has promised, with its intermediate.
type planned struct {
	Server       mesh.Server `json:"server"`
	Intermediate []byte      `json:"intermediate"` // PEM
}

const fileFormation = "formation.json"

func (x *formation) parse(b []byte) error {
	if err := json.Unmarshal(b, x); err != nil {
		return err
	}
	_, err := mesh.ParseServerID(string(x.Server))
	if p := x.Promise; p != nil && len(p.RootHash) != 32 {
		err = errors.Join(err, errors.New("its promise names no root"))
	}
	return err
}

func (x *formation) founds() bool { return x.Promise != nil && x.Promise.Founder == x.Server }

// formation returns nil when none is under way.
func (f *folder) formation() (*formation, error) {
	if has, err := f.has(fileFormation); err != nil || !has {
		return nil, err
	}
	x := new(formation)
	return x, f.read(fileFormation, x.parse)
}

// formed ends the formation: the server is one of the mesh's like any other.
func (f *folder) formed() error {
	for _, name := range []string{fileFormation, fileFormation + ".old"} {
		if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return setupf("", "end of founding: %w", err)
		}
	}
	return nil
}

// intermediateKey returns the key of this server's issuer, made when there is
// none. It never leaves the server.
func (f *folder) intermediateKey() (crypto.Signer, error) {
	var key crypto.Signer
	has, err := f.has(fileIntermediateKey)
	if err != nil {
		return nil, err
	}
	if has {
		return key, f.read(fileIntermediateKey, func(b []byte) (err error) { key, err = ca.ParseKey(mesh.Secret(b)); return err })
	}
	if key, err = ca.NewKey(); err != nil {
		return nil, err
	}
	text, err := ca.MarshalKey(key)
	if err != nil {
		return nil, err
	}
	return key, f.write(fileIntermediateKey, []byte(text.Reveal()))
}

// joiner is what the server says of itself to the others.
func joiner(c Config, x formation, key crypto.PublicKey, addresses []string) (*controlpb.Joiner, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("mgmt: describe own key: %w", mesh.ErrInvalid)
	}
	return &controlpb.Joiner{
		Server: string(x.Server), Name: x.Name, Key: der, Addresses: addresses, Peer: c.peerURL(), Gossip: c.gossipAddress(),
	}, nil
}

// serverOf checks what another server says of itself.
func serverOf(j *controlpb.Joiner, now time.Time) (mesh.Server, crypto.PublicKey, error) {
	s := mesh.Server{
		ID: mesh.ServerID(j.GetServer()), Name: j.GetName(), Addresses: j.GetAddresses(), Peer: j.GetPeer(), Gossip: j.GetGossip(),
		State: mesh.ServerJoining, Joined: now.UTC(),
	}
	key, err := x509.ParsePKIXPublicKey(j.GetKey())
	if err != nil {
		err = errors.New("no readable key")
	}
	_, err2 := mesh.ParseServerID(string(s.ID))
	peer := strings.TrimPrefix(s.Peer, "https://") // it becomes part of a list of etcd's
	if err := errors.Join(err, err2, checkTold(s.Addresses...), checkTold(s.Gossip, peer), mesh.CheckName(s.Name), checkPeerURL(s.Peer)); err != nil {
		return s, nil, fmt.Errorf("mgmt: what the server says of itself: %w: %w", err, mesh.ErrInvalid)
	}
	return s, key, nil
}

// checkTold accepts addresses that another server tells of: they are dialled,
// stored, and shown to people.
func checkTold(addresses ...string) error {
	if len(addresses) == 0 || len(addresses) > maxAddresses {
		return errors.New("no usable number of addresses")
	}
	for _, a := range addresses {
		odd := func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(".-_:[]", r))
		}
		if len(a) > maxAddress || strings.ContainsFunc(a, odd) {
			return errors.New("an address is no host:port")
		}
		if err := checkDial(a); err != nil {
			return err
		}
	}
	return nil
}

// maxAddress is how long one may be: a name of DNS, and a port.
const maxAddress = 253 + len(":65535")

// maxAddresses is how many addresses one server may have.
const maxAddresses = 8
