package subscription

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// TestDocuments compares each format with what was looked at, and fed to the
// clients themselves, before. UPDATE=1 rewrites it.
func TestDocuments(t *testing.T) {
	suspended := everything(t)
	suspended.Standing = mesh.StandingSuspended
	for _, f := range Formats() {
		if f == FormatHTML {
			continue
		}
		golden(t, string(f)+".txt", render(t, f, everything(t)))
		golden(t, string(f)+"-suspended.txt", render(t, f, suspended))
	}
}

func golden(t *testing.T, name string, got Body) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(file, got.Data, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Data) != string(want) {
		t.Errorf("%s differs; look at it, then UPDATE=1 go test ./pkg/subscription/\ngot:\n%s", name, got.Data)
	}
}

func render(t testing.TB, f Format, p Profile) Body {
	t.Helper()
	b, err := Render(f, p)
	if err != nil {
		t.Fatal(err)
	}
	if b.ContentType == "" || len(b.Data) == 0 {
		t.Fatalf("%s: type %q, %d bytes", f, b.ContentType, len(b.Data))
	}
	return b
}

func TestThePageIsMadeElsewhere(t *testing.T) {
	if _, err := Render(FormatHTML, everything(t)); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
