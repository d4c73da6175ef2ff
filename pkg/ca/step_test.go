package ca_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// TestSmallstepOffersNothing is the other half of C-12: no provisioner, hence
// no ACME, SCEP or SSH, and no way to a certificate around Issue.
func TestSmallstepOffersNothing(t *testing.T) {
	f := found(t)
	if got := f.Provisioners(); len(got) != 0 {
		t.Errorf("provisioners %v", got)
	}
	chain, rec := f.issue(t, f.identity(mesh.RoleCore), newKey(t))
	leaf := parse(t, chain[0])
	if err := f.RenewByItself(leaf); err == nil {
		t.Error("it renewed by itself")
	}
	if err := f.StoreUnasked(leaf); err == nil {
		t.Error("it stored a certificate that nobody asked for")
	}
	if len(f.records.certs) != 1 {
		t.Errorf("%d certificates on record, want one", len(f.records.certs))
	}
	f.records.revoked[rec.Serial] = true
	if revoked, err := f.IsRevoked(rec.Serial); err != nil || !revoked {
		t.Errorf("revoked: %v, %v", revoked, err)
	}
	if revoked, err := f.IsRevoked("404"); err == nil || !revoked {
		t.Errorf("a serial that is not on record: %v, %v", revoked, err)
	}
}

func TestUsedTokensLeaveOnlyAHash(t *testing.T) {
	f := found(t)
	for i, want := range []bool{true, false} {
		if first, err := f.UseToken("canary-token"); err != nil || first != want {
			t.Errorf("use %d: %v, %v", i, first, err)
		}
	}
	for key := range f.records.used {
		if strings.Contains(key, "canary") || strings.Contains(key, "itself") {
			t.Errorf("the token is stored: %s", key)
		}
	}
}

// TestSmallstepVersion: two advisories of 2026 were fixed in 0.29.0.
func TestSmallstepVersion(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`smallstep/certificates v(\d+)\.(\d+)\.`).FindSubmatch(mod)
	if found == nil {
		t.Fatal("go.mod does not name smallstep")
	}
	major, _ := strconv.Atoi(string(found[1]))
	minor, _ := strconv.Atoi(string(found[2]))
	if major == 0 && minor < 30 {
		t.Fatalf("smallstep %s, want v0.30 or newer", found[0])
	}
}
