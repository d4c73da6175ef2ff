//go:build kube

package kube

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
)

// Images of the tests' own small program.
const (
	podImage     = "meshctl.test/pod:1"
	pauseImage   = "meshctl.test/pause:1"
	failImage    = "meshctl.test/fail:1"    // ends at once
	unreadyImage = "meshctl.test/unready:1" // is never ready
)

// writeImage writes an OCI image FROM scratch with one program in it as a tar
// that containerd imports.
func writeImage(file, name, program, entrypoint string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := tarOf(map[string][]byte{strings.TrimPrefix(entrypoint, "/"): binary})
	if err != nil {
		return err
	}
	blobs := map[string][]byte{}
	add := func(media string, blob []byte) map[string]any {
		digest := digestOf(blob)
		blobs["blobs/sha256/"+digest] = blob
		return map[string]any{"mediaType": "application/vnd.oci.image." + media, "digest": "sha256:" + digest, "size": len(blob)}
	}
	addJSON := func(media string, v any) (map[string]any, error) {
		blob, err := json.Marshal(v)
		return add(media, blob), err
	}
	config, err := addJSON("config.v1+json", map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": []string{entrypoint}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digestOf(layer)}},
	})
	if err != nil {
		return err
	}
	manifest, err := addJSON("manifest.v1+json", map[string]any{"schemaVersion": 2, "config": config, "layers": []any{add("layer.v1.tar", layer)}})
	if err != nil {
		return err
	}
	manifest["annotations"] = map[string]string{"io.containerd.image.name": name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{manifest}})
	if err != nil {
		return err
	}
	blobs["oci-layout"], blobs["index.json"] = []byte(`{"imageLayoutVersion":"1.0.0"}`), index
	image, err := tarOf(blobs)
	if err != nil {
		return err
	}
	return os.WriteFile(file, image, 0o600)
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func tarOf(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, data := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}
