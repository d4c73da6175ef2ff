package mgmt

import (
	"bytes"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func mustMarshal(f *testing.F, m proto.Message) []byte {
	f.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// odd is in no address: it would end a line, or begin another member of a list.
func odd(s string) bool { return strings.ContainsAny(s, ",=\n\r\x00 \x1b") || len(s) > 300 }

// FuzzJoiner: what a server says of itself is usable in every part, or refused.
func FuzzJoiner(f *testing.F) {
	key, err := ca.NewKey()
	if err != nil {
		f.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		f.Fatal(err)
	}
	good := &controlpb.Joiner{
		Server: string(mesh.NewServerID()), Name: "a", Key: der, Addresses: []string{"a.example:7600", "[2001:db8::1]:7600"},
		Peer: "https://192.0.2.1:2380", Gossip: "192.0.2.1:7946",
	}
	now := time.Now()
	if _, _, err := serverOf(good, now); err != nil {
		f.Fatal(err)
	}
	f.Add(mustMarshal(f, &controlpb.JoinRequest{Joiner: good}))
	for _, peer := range []string{"https://[fe80::1%a,x=https://192.0.2.9]:2380", "http://192.0.2.1:2380", "https://192.0.2.1:2380/x"} {
		bad := proto.CloneOf(good)
		bad.Peer = peer
		if _, _, err := serverOf(bad, now); err == nil {
			f.Errorf("taken: peer %q", peer)
		}
		f.Add(mustMarshal(f, &controlpb.JoinRequest{Joiner: bad}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var req controlpb.JoinRequest
		if proto.Unmarshal(b, &req) != nil {
			return
		}
		s, key, err := serverOf(req.GetJoiner(), now)
		if err != nil {
			return
		}
		if _, err := mesh.ParseServerID(string(s.ID)); err != nil || key == nil || mesh.CheckName(s.Name) != nil || len(s.Addresses) > maxAddresses {
			t.Errorf("taken: %+v", s)
		}
		for _, a := range append(s.Addresses, s.Peer, s.Gossip) {
			if odd(a) {
				t.Errorf("taken: address %q", a)
			}
		}
	})
}

// FuzzPromiseRequest: what is asked to be promised can be written down and
// followed, or is refused.
func FuzzPromiseRequest(f *testing.F) {
	good := &controlpb.PromiseRequest{
		Founder: string(mesh.NewServerID()), FounderName: "a", MeshId: string(mesh.NewID()), RootHash: bytes.Repeat([]byte{1}, 32),
		Addresses: []string{"192.0.2.1:7600"}, ClockUnixNanos: 1,
	}
	now := time.Now()
	if _, err := promiseOf(good, now); err != nil {
		f.Fatal(err)
	}
	f.Add(mustMarshal(f, good))
	f.Fuzz(func(t *testing.T, b []byte) {
		var req controlpb.PromiseRequest
		if proto.Unmarshal(b, &req) != nil {
			return
		}
		p, err := promiseOf(&req, now)
		if err != nil {
			return
		}
		if len(p.RootHash) != 32 || mesh.CheckName(p.Name) != nil || len(p.Addresses) > maxAddresses {
			t.Errorf("taken: %+v", p)
		}
		for _, a := range p.Addresses {
			if odd(a) {
				t.Errorf("taken: address %q", a)
			}
		}
	})
}

// FuzzHandover: nothing is taken that is not of the root that was promised.
func FuzzHandover(f *testing.F) {
	now := time.Now()
	root, err := ca.NewRoot(mesh.NewID(), now)
	if err != nil {
		f.Fatal(err)
	}
	key, err := ca.NewKey()
	if err != nil {
		f.Fatal(err)
	}
	x := &former{key: key, state: formation{Promise: &promise{Mesh: mesh.NewID(), RootHash: make([]byte, 32)}}}
	h := &controlpb.Handover{
		MeshId: string(x.meshID()), Root: ca.MarshalCert(root.Cert()), Intermediate: ca.MarshalCert(root.Cert()),
		EtcdCa: "none", DataKey: make([]byte, 32), Cluster: "a=https://192.0.2.1:2380",
	}
	f.Add(mustMarshal(f, &controlpb.JoinResponse{Handover: h}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var resp controlpb.JoinResponse
		if proto.Unmarshal(b, &resp) == nil && x.unusable(resp.GetHandover()) == "" {
			t.Error("taken without the root that was promised")
		}
	})
}
