package store

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Seal encrypts a secret field under the mesh data key and binds it to the place
// it is stored in: DeviceSecretPlace, CellKeyPlace. See Sealing.
func (s *Store) Seal(place string, secret mesh.Secret) (mesh.Sealed, error) {
	aeads, err := s.aeads()
	if err != nil {
		return "", fmt.Errorf("store: seal %s: %w", place, err)
	}
	aead := aeads[0]
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(secret)+aead.Overhead())
	rand.Read(nonce) // never fails; 192 random bits do not repeat
	out := aead.Seal(nonce, nonce, []byte(secret.Reveal()), []byte(place))
	return mesh.Sealed(mesh.SealedPrefix + base64.RawURLEncoding.EncodeToString(out)), nil
}

// Unseal opens what Seal made for the same place, under any of the data keys.
func (s *Store) Unseal(place string, sealed mesh.Sealed) (mesh.Secret, error) {
	secret, _, err := s.unseal(place, sealed)
	return secret, err
}

// unseal says too whether the key that seals now has sealed it. Which key it was
// shows by trying, so that a sealed value is what it has always been.
func (s *Store) unseal(place string, sealed mesh.Sealed) (secret mesh.Secret, fresh bool, err error) {
	aeads, err := s.aeads()
	if err != nil {
		return "", false, fmt.Errorf("store: open the sealed %s: %w", place, err)
	}
	text, ok := strings.CutPrefix(string(sealed), mesh.SealedPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil || len(raw) < chacha20poly1305.NonceSizeX {
		return "", false, fmt.Errorf("store: open the sealed %s: it is not a sealed value: %w", place, mesh.ErrInvalid)
	}
	for i, aead := range aeads {
		plain, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], []byte(place))
		if err == nil {
			return mesh.Secret(plain), i == 0, nil
		}
	}
	return "", false, mesh.WithHint(fmt.Errorf("store: open the sealed %s: it was sealed under another data key, for another place, or is damaged: %w", place, mesh.ErrInvalid),
		"put back the data key this mesh was founded with, or that came with the last rekey")
}

// Sealing is called before a value is sealed that is then written, and its
// result when it is written: SetDataKeys waits for it.
func (s *Store) Sealing() (written func()) {
	s.sealing.RLock()
	return s.sealing.RUnlock
}

// SetDataKeys takes other data keys, of which the first seals. When it returns,
// nothing is under way any more that another key has sealed.
func (s *Store) SetDataKeys(keys [][32]byte) {
	s.sealing.Lock()
	defer s.sealing.Unlock()
	s.keyLock.Lock()
	defer s.keyLock.Unlock()
	s.dataKeys = slices.Clone(keys)
}

// DataKeys are the data keys; the first seals.
func (s *Store) DataKeys() [][32]byte {
	s.keyLock.Lock()
	defer s.keyLock.Unlock()
	return slices.Clone(s.dataKeys)
}

var errNoDataKey = errors.New("no data key is loaded")

// Derive returns a key that whoever has the mesh data key has, and nobody else. It
// is the same for the same purpose until the data key is replaced.
func (s *Store) Derive(purpose string) (mesh.Secret, error) {
	keys := s.DataKeys()
	if len(keys) == 0 {
		return "", errNoDataKey
	}
	key, err := hkdf.Key(sha256.New, keys[0][:], nil, "meshctl derive "+purpose, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("store: derive a key: %w", err)
	}
	return mesh.Secret(base64.RawURLEncoding.EncodeToString(key)), nil
}

func (s *Store) aeads() ([]cipher.AEAD, error) {
	keys := s.DataKeys()
	if len(keys) == 0 {
		return nil, errNoDataKey
	}
	out := make([]cipher.AEAD, len(keys))
	for i, k := range keys {
		var err error
		if out[i], err = chacha20poly1305.NewX(k[:]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
