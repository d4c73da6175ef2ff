package backup_test

import (
	"bytes"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/meshctl/meshctl/pkg/backup"
)

// TestLargePlaintextsAreCompressed, and come back; small ones are as they are.
func TestLargePlaintextsAreCompressed(t *testing.T) {
	w := newWorld(t)
	for n, compressed := range map[int]bool{0: false, 100: false, 4095: false, 4096: true, 1 << 20: true} {
		plain := []byte(strings.Repeat("a", n))
		sealed, err := backup.SealFor(w.state, plain)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(sealed) < n; got != compressed && n > 1000 {
			t.Errorf("%d bytes became %d", n, len(sealed))
		}
		if got := decrypt(t, sealed, w.alice); !bytes.Equal(got, plain) {
			t.Errorf("%d bytes came back as %d", n, len(got))
		}
	}
}

// TestAFileThatUnpacksWithoutEnd is not unpacked to its end.
func TestAFileThatUnpacksWithoutEnd(t *testing.T) {
	w := newWorld(t)
	sealed, err := backup.SealFor(w.state, make([]byte, 64<<20))
	if err != nil {
		t.Fatal(err)
	}
	if len(sealed) > 1<<20 {
		t.Fatalf("%d bytes", len(sealed))
	}
	if plain, err := backup.OpenFile(sealed, []age.Identity{w.alice}); err == nil {
		t.Errorf("got %d bytes", len(plain))
	}
}
