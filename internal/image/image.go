package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	program = "meshctl" // the only file
	user    = "65532:65532"
	source  = "https://github.com/meshctl/meshctl"
)

// epoch is when everything in an image was made: one source makes one image.
var epoch = time.Unix(0, 0).UTC()

// newImage makes the image of one platform.
func newImage(binary []byte, platform v1.Platform) (v1.Image, error) {
	files, err := archive(binary)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "make image"},
	})
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Created = v1.Time{Time: epoch}
	file.OS, file.Architecture, file.Variant = platform.OS, platform.Architecture, platform.Variant
	file.Config = v1.Config{
		User: user, Entrypoint: []string{"/" + program}, WorkingDir: "/",
		Labels: map[string]string{"org.opencontainers.image.title": program, "org.opencontainers.image.source": source},
	}
	return mutate.ConfigFile(img, file)
}

// archive is a layer with the program alone. There are no certificates of public
// authorities, no time zones and no users: an entry trusts the root of its mesh, and
// nothing else.
func archive(binary []byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	head := &tar.Header{Typeflag: tar.TypeReg, Name: program, Mode: 0o555, Size: int64(len(binary)), ModTime: epoch}
	if err := w.WriteHeader(head); err != nil {
		return nil, err
	}
	if _, err := w.Write(binary); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// newIndex is what a registry keeps under one name for all platforms.
func newIndex(images map[string]v1.Image, platforms []v1.Platform) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        images[p.String()],
			Descriptor: v1.Descriptor{Platform: &p},
		})
	}
	return index
}

// write makes dir anew: the OCI layout of all platforms, and for each one a tar for
// `docker load`, `podman load` and `ctr images import`.
func write(dir, tag string, images map[string]v1.Image, platforms []v1.Platform) (v1.Hash, error) {
	ref, err := name.NewTag(tag)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return v1.Hash{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return v1.Hash{}, err
	}
	index := newIndex(images, platforms)
	path, err := layout.Write(filepath.Join(dir, "oci"), empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	// containerd spells the default registry in another way than its own name.
	full := strings.Replace(ref.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
	names := map[string]string{"org.opencontainers.image.ref.name": ref.TagStr(), "io.containerd.image.name": full}
	if err := path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return v1.Hash{}, err
	}
	for _, p := range platforms {
		file := filepath.Join(dir, program+"-"+p.Architecture+".tar")
		if err := tarball.WriteToFile(file, ref, images[p.String()]); err != nil {
			return v1.Hash{}, fmt.Errorf("%s: %w", file, err)
		}
	}
	return index.Digest()
}
