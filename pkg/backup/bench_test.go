package backup_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/meshctl/meshctl/pkg/backup"
)

// large is a mesh of n objects, most of them devices, with two recipients and the
// mesh's own.
func large(b *testing.B, n int) *world {
	b.Helper()
	w := newWorld(b)
	w.state.Recipients = append(w.state.Recipients, backup.Recipient{Name: "bob", Key: newAge(b).Recipient().String()})
	w.state.Objects = devices(n * 8 / 10)
	for i := range n / 10 {
		w.state.Objects = append(w.state.Objects, member(i, "Alicia"),
			object("certs", fmt.Sprint(i), `{"serial":"%d","node":"core/core-aaaaaaaaaaaaaaaa","notAfter":"2026-11-30T08:00:00Z"}`, i))
	}
	return w
}

func BenchmarkDraftOf10000FromNothing(b *testing.B) {
	w := large(b, 10000)
	var bytes, files int
	for b.Loop() {
		bytes, files = 0, 0
		if _, err := w.r.Draft(b.Context(), nil, w.state, nil, func(f backup.File) error {
			bytes += len(f.Data)
			files++
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(files), "files")
	b.ReportMetric(float64(bytes)/1e6, "MB")
}

func BenchmarkDraftOfOneChangeIn10000(b *testing.B) {
	w := large(b, 10000)
	tree := make(backup.Files)
	w.draft(tree)
	var bytes, files int
	i := 0
	for b.Loop() {
		i++
		w.state.Objects[77] = device(77, fmt.Sprintf("name %d", i))
		bytes, files = 0, 0
		if _, err := w.r.Draft(b.Context(), tree, w.state, nil, func(f backup.File) error {
			bytes += len(f.Data)
			files++
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(files), "files")
	b.ReportMetric(float64(bytes)/1e3, "kB")
}

func BenchmarkReadOf10000(b *testing.B) {
	w := large(b, 10000)
	tree := make(backup.Files)
	w.draft(tree)
	for b.Loop() {
		if _, err := backup.Read(b.Context(), tree, []backup.Identity{w.own}, w.opts()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemoryOfADraft reports what a draft from nothing needs beside the
// state, when nobody keeps the files.
func BenchmarkMemoryOfADraft(b *testing.B) {
	w := large(b, 10000)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var peak uint64
	for b.Loop() {
		n := 0
		if _, err := w.r.Draft(b.Context(), nil, w.state, nil, func(backup.File) error {
			if n++; n%1000 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				peak = max(peak, now.HeapAlloc)
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(int64(peak)-int64(before.HeapAlloc))/1e6, "MB-live")
}
