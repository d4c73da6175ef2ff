package store

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/meshctl/meshctl/internal/durable"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// NewDataKey returns a random mesh data key.
func NewDataKey() [32]byte {
	var k [32]byte
	rand.Read(k[:]) // never fails
	return k
}

// WriteDataKey stores the mesh data key at path, mode 0600. An existing file is
// left alone: it returns ErrExists, since what is sealed under a key that was
// overwritten is lost.
func WriteDataKey(path string, key [32]byte) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = mesh.ErrExists
		}
		return fmt.Errorf("store: write data key %s: %w", path, err)
	}
	if err := durable.Write(path, []byte(base64.RawURLEncoding.EncodeToString(key[:])+"\n")); err != nil {
		return fmt.Errorf("store: write data key: %w", err)
	}
	return nil
}

// ReadDataKey reads what WriteDataKey wrote. It returns ErrNotFound when there
// is no such file, and refuses one that others may read.
func ReadDataKey(path string) ([32]byte, error) {
	var key [32]byte
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return key, mesh.WithHint(fmt.Errorf("store: read data key %s: %w", path, mesh.ErrNotFound),
			"restore it from another management server or a backup")
	}
	if err != nil {
		return key, fmt.Errorf("store: read data key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return key, mesh.WithHint(fmt.Errorf("store: read data key %s: mode %v lets others read it: %w", path, info.Mode().Perm(), mesh.ErrInvalid),
			"chmod 600 "+path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return key, fmt.Errorf("store: read data key: %w", err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(raw) != len(key) {
		return key, mesh.WithHint(fmt.Errorf("store: read data key %s: the file is damaged: %w", path, mesh.ErrInvalid),
			"restore it from another management server or a backup")
	}
	return [32]byte(raw), nil
}
