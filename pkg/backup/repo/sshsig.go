package repo

import (
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	sigMagic = "SSHSIG"
	sigSpace = "git"
	sigHash  = "sha512"
)

// signSSH signs text as "ssh-keygen -Y sign -n git" does, which is what Git
// checks with gpg.format ssh.
func signSSH(key mesh.Secret, text []byte) (string, error) {
	signer, err := ssh.ParsePrivateKey([]byte(key.Reveal()))
	if err != nil {
		// The cause may quote the key.
		return "", fmt.Errorf("sign: the key is not an SSH private key without passphrase: %w", mesh.ErrInvalid)
	}
	sum := sha512.Sum512(text)
	signed := append([]byte(sigMagic), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Sum                       []byte
	}{sigSpace, "", sigHash, sum[:]})...)
	sig, err := signDigest(signer, signed)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	blob := append([]byte(sigMagic), ssh.Marshal(struct {
		Version                   uint32
		Key                       []byte
		Namespace, Reserved, Hash string
		Sig                       []byte
	}{1, signer.PublicKey().Marshal(), sigSpace, "", sigHash, ssh.Marshal(sig)})...)
	return armor(blob), nil
}

// signDigest keeps RSA from SHA-1, which is refused today.
func signDigest(signer ssh.Signer, data []byte) (*ssh.Signature, error) {
	if as, ok := signer.(ssh.AlgorithmSigner); ok && signer.PublicKey().Type() == ssh.KeyAlgoRSA {
		return as.SignWithAlgorithm(rand.Reader, data, ssh.KeyAlgoRSASHA512)
	}
	return signer.Sign(rand.Reader, data)
}

func armor(blob []byte) string {
	var b strings.Builder
	b.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	text := []byte(base64.StdEncoding.EncodeToString(blob))
	for line := range slices.Chunk(text, 70) {
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteString("-----END SSH SIGNATURE-----\n")
	return b.String()
}
