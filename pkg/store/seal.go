package store

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Seal encrypts a secret field under the mesh data key and binds it to the place
// it is stored in: DeviceSecretPlace, CellKeyPlace.
func (s *Store) Seal(place string, secret mesh.Secret) (mesh.Sealed, error) {
	aead, err := s.aead()
	if err != nil {
		return "", fmt.Errorf("store: seal %s: %w", place, err)
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(secret)+aead.Overhead())
	rand.Read(nonce) // never fails; 192 random bits do not repeat
	out := aead.Seal(nonce, nonce, []byte(secret.Reveal()), []byte(place))
	return mesh.Sealed(mesh.SealedPrefix + base64.RawURLEncoding.EncodeToString(out)), nil
}

// Unseal opens what Seal made for the same place.
func (s *Store) Unseal(place string, sealed mesh.Sealed) (mesh.Secret, error) {
	aead, err := s.aead()
	if err != nil {
		return "", fmt.Errorf("store: open the sealed %s: %w", place, err)
	}
	text, ok := strings.CutPrefix(string(sealed), mesh.SealedPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil || len(raw) < aead.NonceSize() {
		return "", fmt.Errorf("store: open the sealed %s: it is not a sealed value: %w", place, mesh.ErrInvalid)
	}
	plain, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], []byte(place))
	if err != nil {
		return "", mesh.WithHint(fmt.Errorf("store: open the sealed %s: it was sealed under another data key, for another place, or is damaged: %w", place, mesh.ErrInvalid),
			"put back the data key this mesh was founded with")
	}
	return mesh.Secret(plain), nil
}

var errNoDataKey = errors.New("no data key is loaded")

func (s *Store) aead() (cipher.AEAD, error) {
	if s.dataKey == ([32]byte{}) {
		return nil, errNoDataKey
	}
	return chacha20poly1305.NewX(s.dataKey[:])
}
