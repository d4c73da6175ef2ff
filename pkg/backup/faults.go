package backup

import (
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxFaults is how many faults are told apart; more are counted.
const maxFaults = 100

// Fault is what is wrong with one file of a backup.
type Fault struct {
	Path    string
	Problem string
}

func (f Fault) String() string { return f.Path + ": " + f.Problem }

// FaultsError says everything that is wrong with a backup. It is mesh.ErrInvalid.
type FaultsError struct {
	Faults []Fault // in the order of finding, at most 100
	Count  int     // of all
}

func (e *FaultsError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "backup: read: %d fault", e.Count)
	if e.Count != 1 {
		b.WriteString("s")
	}
	for _, f := range e.Faults {
		b.WriteString("\n  " + f.String())
	}
	if more := e.Count - len(e.Faults); more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// Unwrap returns the kind.
func (e *FaultsError) Unwrap() error { return mesh.ErrInvalid }

// faults collects. Its methods are for one goroutine at a time.
type faults struct{ FaultsError }

func (f *faults) add(path, format string, args ...any) {
	f.Count++
	if len(f.Faults) < maxFaults {
		f.Faults = append(f.Faults, Fault{Path: mesh.Quotable(path), Problem: fmt.Sprintf(format, args...)})
	}
}

func (f *faults) err() error {
	if f.Count == 0 {
		return nil
	}
	return mesh.WithHint(&f.FaultsError, "take another commit, or another remote: this one is not as it was written")
}
