package main

import (
	"archive/tar"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const both = "linux/amd64,linux/arm64"

// makeImage builds the image of a small program.
func makeImage(t *testing.T) (dir string, digest v1.Hash) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "image")
	digest, err := run(t.Context(), "./testdata/hello", dir, "registry.example.net/meshctl:1.2", both)
	if err != nil {
		t.Fatal(err)
	}
	return dir, digest
}

func TestTwoBuildsAreTheSameBytes(t *testing.T) {
	one, digest := makeImage(t)
	other, again := makeImage(t)
	if digest != again {
		t.Errorf("digests %s and %s", digest, again)
	}
	files := 0
	err := filepath.WalkDir(one, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		rel, err := filepath.Rel(one, path)
		if err != nil {
			return err
		}
		a, errA := os.ReadFile(path)
		b, errB := os.ReadFile(filepath.Join(other, rel))
		if !slices.Equal(a, b) {
			t.Errorf("%s differs", rel)
		}
		return errors.Join(errA, errB)
	})
	if err != nil || files < 10 {
		t.Errorf("%d files, %v", files, err)
	}
}

func TestTheLayoutHasAnImageForEachPlatform(t *testing.T) {
	dir, digest := makeImage(t)
	outer, err := layout.ImageIndexFromPath(filepath.Join(dir, "oci"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Error(err)
	}
	index, err := outer.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for _, d := range m.Manifests {
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, img, d.Platform.Architecture, machines[d.Platform.Architecture])
		delete(machines, d.Platform.Architecture)
	}
	if len(machines) > 0 {
		t.Errorf("no image for %v", machines)
	}
}

func TestTheTarsAreForDockerAndContainerd(t *testing.T) {
	dir, _ := makeImage(t)
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		img, err := tarball.ImageFromPath(filepath.Join(dir, "meshctl-"+arch+".tar"), nil)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, img, arch, machine)
	}
}

// checkImage wants the program alone, for nobody to change, and no root.
func checkImage(t *testing.T, img v1.Image, arch string, machine elf.Machine) {
	t.Helper()
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.Architecture != arch || file.OS != "linux" || file.Config.User != "65532:65532" || !slices.Equal(file.Config.Entrypoint, []string{"/meshctl"}) {
		t.Errorf("%s: %+v", arch, file)
	}
	if !file.Created.Equal(epoch) {
		t.Errorf("made at %v: the next build is another image", file.Created)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files := tar.NewReader(r)
	head, err := files.Next()
	if err != nil || head.Name != "meshctl" || head.Mode != 0o555 || head.Uid != 0 || !head.ModTime.Equal(epoch) {
		t.Fatalf("%+v, %v", head, err)
	}
	binary := filepath.Join(t.TempDir(), "meshctl")
	data, err := io.ReadAll(files)
	if err := errors.Join(err, os.WriteFile(binary, data, 0o700)); err != nil {
		t.Fatal(err)
	}
	program, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if program.Machine != machine || program.Section(".interp") != nil {
		t.Errorf("%s: %v, or not static", arch, program.Machine)
	}
	if _, err := files.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("there is more than the program: %v", err)
	}
}

func TestWhatCannotBeBuiltIsNamed(t *testing.T) {
	for _, x := range []struct{ pkg, tag, platforms string }{
		{"./testdata/hello", "meshctl:1", "linux/none"},
		{"./testdata/gone", "meshctl:1", "linux/amd64"},
		{"./testdata/hello", "Not a name", "linux/amd64"},
		{"./testdata/hello", "meshctl:1", "a/b/c/d/e"},
	} {
		dir := filepath.Join(t.TempDir(), "image")
		if digest, err := run(t.Context(), x.pkg, dir, x.tag, x.platforms); err == nil {
			t.Errorf("%+v: %s", x, digest)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: something was written", x)
		}
	}
}
