package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// DataKeyID names a data key without telling it.
func DataKeyID(key [32]byte) string {
	sum := sha256.Sum256(append([]byte("meshctl data key "), key[:]...))
	return hex.EncodeToString(sum[:8])
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
	return ReplaceDataKeys(path, key)
}

// ReplaceDataKeys stores the keys at path, a line each; the first seals, and the
// others open what they have sealed. No version before it is kept beside it:
// what a key that is dropped has sealed must stay shut.
func ReplaceDataKeys(path string, keys ...[32]byte) error {
	var text strings.Builder
	for _, k := range keys {
		text.WriteString(base64.RawURLEncoding.EncodeToString(k[:]) + "\n")
	}
	if err := durable.Write(path, []byte(text.String())); err != nil {
		return fmt.Errorf("store: write data key: %w", err)
	}
	return ForgetDataKeys(path)
}

// ForgetDataKeys removes what a ReplaceDataKeys that was cut off has left: the
// version before, and what it was about to write. Nobody else may be writing.
func ForgetDataKeys(path string) error {
	litter, err := durable.Litter(path)
	gone := false
	for _, file := range append(litter, path+".old") {
		switch e := os.Remove(file); {
		case e == nil:
			gone = true
		case !errors.Is(e, fs.ErrNotExist):
			err = errors.Join(err, e)
		}
	}
	if gone {
		err = errors.Join(err, durable.SyncDir(filepath.Dir(path)))
	}
	if err != nil {
		return fmt.Errorf("store: forget data key: %w", err)
	}
	return nil
}

// maxDataKeys is how many keys a file may hold: while one replaces another, two.
const maxDataKeys = 2

// ReadDataKeys reads what was written to path. It returns ErrNotFound when there
// is no such file, and refuses one that others may read.
func ReadDataKeys(path string) ([][32]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, mesh.WithHint(fmt.Errorf("store: read data key %s: %w", path, mesh.ErrNotFound),
			"restore it from another management server or a backup")
	}
	if err != nil {
		return nil, fmt.Errorf("store: read data key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, mesh.WithHint(fmt.Errorf("store: read data key %s: mode %v lets others read it: %w", path, info.Mode().Perm(), mesh.ErrInvalid),
			"chmod 600 "+path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("store: read data key: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var out [][32]byte
	for _, line := range lines {
		raw, err := base64.RawURLEncoding.DecodeString(line)
		if err != nil || len(raw) != 32 || len(lines) > maxDataKeys {
			return nil, mesh.WithHint(fmt.Errorf("store: read data key %s: the file is damaged: %w", path, mesh.ErrInvalid),
				"restore it from another management server or a backup")
		}
		out = append(out, [32]byte(raw))
	}
	return out, nil
}
