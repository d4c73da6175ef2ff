package mesh

import (
	"errors"
	"testing"
)

func TestIdentityRoundTrip(t *testing.T) {
	want := Identity{Mesh: NewID(), Role: RoleCore, ID: string(NewCoreID())}
	got, err := ParseIdentity(want.String())
	if err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestParseIdentityRefuses(t *testing.T) {
	m, c := string(NewID()), string(NewCoreID())
	for _, uri := range []string{
		"", "spiffe://", "https://" + m + "/core/" + c, "spiffe://" + m + "/core", "spiffe://" + m + "/core/" + c + "/x",
		"spiffe://" + m + "/entry/" + c, "spiffe://" + m + "/root/" + c, "spiffe://x/core/" + c,
		"spiffe://" + m + "/core/" + c + "?x", "spiffe://" + m + "/core/" + c + "#x", "SPIFFE://" + m + "/core/" + c,
		"spiffe://" + m + "/core/core-ABCDEFGHIJKLMNOP", "spiffe://user@" + m + "/core/" + c,
	} {
		if id, err := ParseIdentity(uri); !errors.Is(err, ErrInvalid) || !id.IsZero() {
			t.Errorf("%q: got %v, %v", uri, id, err)
		}
	}
}

func TestIDsAreOfTheirKind(t *testing.T) {
	seen := make(map[DeviceID]bool)
	for range 1000 {
		id := NewDeviceID()
		if seen[id] {
			t.Fatalf("%s twice", id)
		}
		seen[id] = true
		if _, err := ParseDeviceID(string(id)); err != nil {
			t.Fatal(err)
		}
		if _, err := ParseCoreID(string(id)); !errors.Is(err, ErrInvalid) {
			t.Fatalf("a device id passed for a core's: %v", err)
		}
	}
}
