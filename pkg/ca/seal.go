package ca

import (
	"bytes"
	"crypto"
	"crypto/cipher"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"fmt"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// A sealed root is, with big-endian integers:
//
//	"meshctl root v1\n"  time u32  memory u32 (KiB)  threads u8  salt[16]  nonce[24]  ciphertext
//
// The key is Argon2id of the passphrase; everything before the ciphertext, and
// the root certificate, is authenticated with it.
const (
	sealMagic   = "meshctl root v1\n"
	sealTime    = 3
	sealMemory  = 64 << 10 // KiB
	sealThreads = 4
	saltLen     = 16
	paramsLen   = len(sealMagic) + 9
	headerLen   = paramsLen + saltLen + chacha20poly1305.NonceSizeX

	// Above these a sealed root was made to exhaust whoever opens it.
	maxSealTime   = 16
	maxSealMemory = 1 << 20
)

// MinPassphrase is the shortest passphrase accepted, in bytes.
const MinPassphrase = 12

// Seal encrypts the root's key under a passphrase of at least MinPassphrase
// bytes (Argon2id, then XChaCha20-Poly1305). It returns ErrInvalid for a
// shorter one.
func (r *Root) Seal(passphrase []byte) ([]byte, error) {
	if len(passphrase) < MinPassphrase {
		return nil, mesh.WithHint(fmt.Errorf("ca: seal root: passphrase shorter than %d bytes: %w", MinPassphrase, mesh.ErrInvalid),
			"use several random words")
	}
	der, err := x509.MarshalPKCS8PrivateKey(r.key)
	if err != nil {
		return nil, fmt.Errorf("ca: seal root: key of type %T: %w", r.key, mesh.ErrInvalid)
	}
	head := binary.BigEndian.AppendUint32([]byte(sealMagic), sealTime)
	head = append(binary.BigEndian.AppendUint32(head, sealMemory), sealThreads)
	random := make([]byte, saltLen+chacha20poly1305.NonceSizeX)
	rand.Read(random) // never fails (crypto/rand)
	head = append(head, random...)
	aead, err := sealCipher(head, passphrase)
	if err != nil {
		return nil, err
	}
	return append(head, aead.Seal(nil, nonce(head), der, associated(head, r.cert))...), nil
}

// OpenRoot opens what Seal made. cert is the root certificate that belongs to
// it. It returns ErrDenied for a wrong passphrase (or a changed byte: the two
// cannot be told apart) and ErrInvalid for what is no sealed root.
func OpenRoot(sealed []byte, cert *x509.Certificate, passphrase []byte) (*Root, error) {
	if len(sealed) <= headerLen || !bytes.HasPrefix(sealed, []byte(sealMagic)) {
		return nil, fmt.Errorf("ca: open root: not a sealed root: %w", mesh.ErrInvalid)
	}
	head := sealed[:headerLen]
	aead, err := sealCipher(head, passphrase)
	if err != nil {
		return nil, err
	}
	der, err := aead.Open(nil, nonce(head), sealed[headerLen:], associated(head, cert))
	if err != nil {
		return nil, fmt.Errorf("ca: open root: wrong passphrase, or the sealed key is damaged: %w", mesh.ErrDenied)
	}
	k, err := x509.ParsePKCS8PrivateKey(der)
	key, ok := k.(crypto.Signer)
	if err != nil || !ok {
		return nil, fmt.Errorf("ca: open root: no key in it: %w", mesh.ErrInvalid)
	}
	if !sameKey(key.Public(), cert.PublicKey) {
		return nil, fmt.Errorf("ca: open root: the key is of another root: %w", mesh.ErrInvalid)
	}
	return &Root{cert: cert, key: key}, nil
}

// sealCipher derives the key with the parameters in the header.
func sealCipher(head, passphrase []byte) (cipher.AEAD, error) {
	params := head[len(sealMagic):]
	passes, memory, threads := binary.BigEndian.Uint32(params), binary.BigEndian.Uint32(params[4:]), params[8]
	if passes == 0 || passes > maxSealTime || memory == 0 || memory > maxSealMemory || threads == 0 {
		return nil, fmt.Errorf("ca: open root: parameters out of range: %w", mesh.ErrInvalid)
	}
	key := argon2.IDKey(passphrase, head[paramsLen:paramsLen+saltLen], passes, memory, threads, chacha20poly1305.KeySize)
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, fmt.Errorf("ca: open root: %w", err)
	}
	return aead, nil
}

func nonce(head []byte) []byte { return head[paramsLen+saltLen:] }

func associated(head []byte, cert *x509.Certificate) []byte {
	return append(bytes.Clone(head), cert.Raw...)
}

func sameKey(a, b crypto.PublicKey) bool {
	x, err1 := mesh.KeyHash(a)
	y, err2 := mesh.KeyHash(b)
	return err1 == nil && err2 == nil && x == y
}
