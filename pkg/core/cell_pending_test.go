package core

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// keyOf is the key that a request is for.
func keyOf(t *testing.T, r *controlpb.CellRequest) []byte {
	t.Helper()
	if r == nil {
		t.Fatal("no request")
	}
	req, err := x509.ParseCertificateRequest(r.GetCsr())
	if err != nil {
		t.Fatal(err)
	}
	if len(req.DNSNames) != 1 || req.DNSNames[0] != "*."+suffix || req.Subject.String() != "" {
		t.Errorf("the request names %v and %q", req.DNSNames, req.Subject)
	}
	return req.RawSubjectPublicKeyInfo
}

// A public authority may take days: the certificate that comes at last is for
// the key that was asked for at first, whatever happened to the core meanwhile.
func TestACertificateThatIsBeingMadeIsForTheFirstKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cell.pem")
	ca := newCellCA(t, suffix)
	c := openCell(path, quiet())
	c.want(suffix, "cell-1")
	now := time.Now()
	first := request(t, c, now)
	key := keyOf(t, first)
	taken, err := c.answer(&controlpb.CellCertificate{Pending: true}, now)
	if err != nil || taken || c.certificate(now) != nil {
		t.Fatalf("taken %v, %v", taken, err)
	}
	if request(t, c, now.Add(10*time.Minute)) != nil {
		t.Error("asked again at once")
	}
	if !bytes.Equal(keyOf(t, request(t, c, now.Add(2*time.Hour))), key) {
		t.Error("asked again with another key")
	}
	c.restart()
	if !bytes.Equal(keyOf(t, request(t, c, now)), key) {
		t.Error("a new stream asks with another key")
	}
	again := openCell(path, quiet())
	again.want(suffix, "cell-1")
	if !bytes.Equal(keyOf(t, request(t, again, now)), key) {
		t.Error("a restart asks with another key")
	}
	fi, err := os.Stat(pendingPath(path))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if taken, err := again.answer(&controlpb.CellCertificate{Chain: ca.sign(t, first.GetCsr(), time.Hour)}, now); err != nil || !taken {
		t.Fatalf("taken %v, %v", taken, err)
	}
	if _, err := os.Stat(pendingPath(path)); err == nil {
		t.Error("the file of the key is still there")
	}
	if bytes.Equal(keyOf(t, request(t, again, now.Add(59*time.Minute))), key) {
		t.Error("the next certificate is for the key of this one")
	}
}

func TestWhileTheNextIsMadeTheLastIsShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cell.pem")
	ca := newCellCA(t, suffix)
	c := openCell(path, quiet())
	c.want(suffix, "cell-1")
	now := time.Now()
	if _, err := c.answer(&controlpb.CellCertificate{Chain: ca.sign(t, request(t, c, now).GetCsr(), 3*time.Hour)}, now); err != nil {
		t.Fatal(err)
	}
	now = now.Add(150 * time.Minute)
	next := request(t, c, now)
	if _, err := c.answer(&controlpb.CellCertificate{Pending: true}, now); err != nil {
		t.Fatal(err)
	}
	shown := c.certificate(now)
	if shown == nil || bytes.Equal(shown.Leaf.RawSubjectPublicKeyInfo, keyOf(t, next)) {
		t.Error("the certificate held is not shown")
	}
	again := openCell(path, quiet())
	again.want(suffix, "cell-1")
	if again.certificate(now) == nil || !bytes.Equal(keyOf(t, request(t, again, now)), keyOf(t, next)) {
		t.Error("a restart lost one of the two")
	}
	again.want("b.example.net", "cell-2")
	if req, err := x509.ParseCertificateRequest(request(t, again, now).GetCsr()); err != nil || req.DNSNames[0] != "*.b.example.net" ||
		bytes.Equal(req.RawSubjectPublicKeyInfo, keyOf(t, next)) {
		t.Error("another cell is asked for with the key of this one")
	}
}

func TestADamagedPendingKeyCostsAnotherRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cell.pem")
	for _, damage := range [][]byte{nil, make([]byte, 50), []byte("-----BEGIN PRIVATE KEY-----\nSuffix: a.example.net\n\nAAAA\n-----END PRIVATE KEY-----\n")} {
		if err := os.WriteFile(pendingPath(path), damage, 0o600); err != nil {
			t.Fatal(err)
		}
		c := openCell(path, quiet())
		c.want(suffix, "cell-1")
		keyOf(t, request(t, c, time.Now()))
	}
}

func TestWhichCertificatesACoreKnows(t *testing.T) {
	for kind, ok := range map[string]bool{"": true, "private": true, "public": true, "later": false} {
		if err := checkCellKind(kind); (err == nil) != ok || err != nil && mesh.Kind(err) != mesh.ErrInvalid {
			t.Errorf("%q: %v", kind, err)
		}
	}
}
