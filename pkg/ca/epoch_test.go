package ca_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func signEpoch(t testing.TB, f *fixture, n int64) mesh.SignedEpoch {
	t.Helper()
	s, err := f.root.SignEpoch(n, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSignEpoch(t *testing.T) {
	f, foreign := found(t), found(t)
	roots := x509.NewCertPool()
	roots.AddCert(f.root.Cert())
	good := signEpoch(t, f, 7)
	payload := func(e mesh.Epoch) []byte {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	signed := func(digest []byte, key crypto.Signer, signer []byte, text []byte) mesh.SignedEpoch {
		sig, err := key.Sign(rand.Reader, digest, crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		return mesh.SignedEpoch{Payload: text, Signature: sig, Signer: signer}
	}
	with := func(change func(*mesh.SignedEpoch)) mesh.SignedEpoch {
		s := mesh.SignedEpoch{Payload: bytes.Clone(good.Payload), Signature: bytes.Clone(good.Signature), Signer: bytes.Clone(good.Signer)}
		change(&s)
		return s
	}
	nine := payload(mesh.Epoch{Mesh: f.mesh, Epoch: 9, At: time.Now()})
	// A certificate with the root's name that signed itself.
	twinKey, ok := newKey(t).(*ecdsa.PrivateKey)
	if !ok {
		t.Fatal("not the kind of key that roots have")
	}
	twin := *f.root.Cert()
	twin.PublicKey = twinKey.Public()
	twinDER, err := x509.CreateCertificate(rand.Reader, &twin, &twin, twinKey.Public(), twinKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		s  mesh.SignedEpoch
		ok bool
	}{
		"as the root signed it":              {good, true},
		"nothing":                            {mesh.SignedEpoch{}, false},
		"another number under the signature": {with(func(s *mesh.SignedEpoch) { s.Payload = payload(mesh.Epoch{Mesh: f.mesh, Epoch: 8, At: time.Now()}) }), false},
		"a changed signature":                {with(func(s *mesh.SignedEpoch) { s.Signature[len(s.Signature)-1] ^= 1 }), false},
		"another mesh's root":                {signEpoch(t, foreign, 7), false},
		"our mesh by another root":           {signed(mesh.EpochDigest(nine), newKey(t), foreign.root.Cert().Raw, nine), false},
		"the intermediate of a server":       {signed(mesh.EpochDigest(nine), f.key, f.inter.Raw, nine), false},
		"a key that poses as the root":       {signed(mesh.EpochDigest(nine), twinKey, twinDER, nine), false},
		"the root, for something else":       {signed(mesh.RevocationDigest(good.Payload), f.key, f.root.Cert().Raw, good.Payload), false},
		"a payload without end":              {with(func(s *mesh.SignedEpoch) { s.Payload = slices.Repeat([]byte(" "), 1<<20) }), false},
		"a signer without end":               {with(func(s *mesh.SignedEpoch) { s.Signer = make([]byte, 1<<20) }), false},
	} {
		e, err := identity.VerifyEpoch(roots, f.mesh, tt.s)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v, want accepted %v", name, err, tt.ok)
		}
		if tt.ok && (e.Epoch != 7 || e.Mesh != f.mesh || time.Since(e.At) > time.Minute) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if _, err := f.root.SignEpoch(0, time.Now()); err == nil {
		t.Error("signed epoch 0")
	}
}

func TestEpochOfState(t *testing.T) {
	f := found(t)
	roots := x509.NewCertPool()
	roots.AddCert(f.root.Cert())
	forged := signEpoch(t, f, 3)
	forged.Signature = []byte("x")
	for name, tt := range map[string]struct {
		c    mesh.Config
		want int64
		ok   bool
	}{
		"founded before there were proofs": {mesh.Config{Epoch: 1}, 1, true},
		"founded with one":                 {mesh.Config{Epoch: 1, EpochProof: signEpoch(t, f, 1)}, 1, true},
		"restored":                         {mesh.Config{Epoch: 3, EpochProof: signEpoch(t, f, 3)}, 3, true},
		"raised without a proof":           {mesh.Config{Epoch: 3}, 1, false},
		"raised beyond its proof":          {mesh.Config{Epoch: 4, EpochProof: signEpoch(t, f, 3)}, 3, false},
		"lowered under its proof":          {mesh.Config{Epoch: 1, EpochProof: signEpoch(t, f, 3)}, 3, false},
		"a forged proof":                   {mesh.Config{Epoch: 3, EpochProof: forged}, 1, false},
	} {
		got, err := identity.EpochOf(roots, f.mesh, tt.c)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%s: epoch %d, %v; want %d, accepted %v", name, got, err, tt.want, tt.ok)
		}
	}
}
