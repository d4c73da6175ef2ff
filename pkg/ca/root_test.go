package ca_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
)

var passphrase = []byte("correct horse battery staple")

func TestSealedRoot(t *testing.T) {
	root, err := ca.NewRoot(mesh.NewID(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	other, err := ca.NewRoot(mesh.NewID(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := root.Seal(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("opens with the passphrase and signs", func(t *testing.T) {
		again, err := ca.OpenRoot(sealed, root.Cert(), passphrase)
		if err != nil {
			t.Fatal(err)
		}
		inter, err := again.Intermediate(mesh.NewServerID(), newKey(t).Public(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := inter.CheckSignatureFrom(root.Cert()); err != nil {
			t.Fatal(err)
		}
		if !inter.IsCA || !inter.MaxPathLenZero || inter.MaxPathLen != 0 {
			t.Fatal("the intermediate could make another CA")
		}
	})
	flip := func(i int) []byte { c := slices.Clone(sealed); c[i] ^= 1; return c }
	huge := slices.Clone(sealed)
	huge[len("meshctl root v1\n")+4] = 0xff // 4 TiB of memory
	tests := map[string]struct {
		sealed     []byte
		cert       *x509.Certificate
		passphrase []byte
		kind       error
	}{
		"a wrong passphrase":         {sealed, root.Cert(), []byte("correct horse battery stable"), mesh.ErrDenied},
		"no passphrase":              {sealed, root.Cert(), nil, mesh.ErrDenied},
		"another root's certificate": {sealed, other.Cert(), passphrase, mesh.ErrDenied},
		"a changed salt":             {flip(30), root.Cert(), passphrase, mesh.ErrDenied},
		"a changed last byte":        {flip(len(sealed) - 1), root.Cert(), passphrase, mesh.ErrDenied},
		"a changed cost":             {flip(len("meshctl root v1\n") + 3), root.Cert(), passphrase, mesh.ErrDenied},
		"a cost that would exhaust":  {huge, root.Cert(), passphrase, mesh.ErrInvalid},
		"cut short":                  {sealed[:40], root.Cert(), passphrase, mesh.ErrInvalid},
		"nothing":                    {nil, root.Cert(), passphrase, mesh.ErrInvalid},
		"something else":             {bytes.Repeat([]byte("x"), 200), root.Cert(), passphrase, mesh.ErrInvalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ca.OpenRoot(tt.sealed, tt.cert, tt.passphrase)
			if !errors.Is(err, tt.kind) {
				t.Fatalf("got %v, want %v", err, tt.kind)
			}
			if strings.Contains(err.Error(), "horse") {
				t.Fatal("the error tells the passphrase")
			}
		})
	}
	if _, err := root.Seal([]byte("short")); !errors.Is(err, mesh.ErrInvalid) {
		t.Fatalf("a short passphrase: %v", err)
	}
}

func TestKeysAndCertificatesAsText(t *testing.T) {
	key := newKey(t)
	text, err := ca.MarshalKey(key)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ca.ParseKey(text)
	if err != nil || !key.Public().(*ecdsa.PublicKey).Equal(again.Public()) {
		t.Fatalf("another key came back: %v", err)
	}
	if printed := fmt.Sprintf("%v %+v %#v %s", text, text, text, text); strings.Contains(printed, "PRIVATE") {
		t.Fatal("printing shows the key")
	}
	body, _ := pem.Decode([]byte(text.Reveal()))
	for name, bad := range map[string]mesh.Secret{
		"nothing":          "",
		"cut short":        text[:len(text)/2],
		"twice":            text + text,
		"a certificate":    mesh.Secret(ca.MarshalCert(found(t).inter)),
		"a changed header": mesh.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: body.Bytes[3:]})),
	} {
		if _, err := ca.ParseKey(bad); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cert := found(t).inter
	if c, err := ca.ParseCert(ca.MarshalCert(cert)); err != nil || !c.Equal(cert) {
		t.Fatalf("another certificate came back: %v", err)
	}
	if _, err := ca.ParseCert([]byte("hello")); !errors.Is(err, mesh.ErrInvalid) {
		t.Fatalf("text: %v", err)
	}
}
