package backup

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"filippo.io/age/armor"
	"golang.org/x/crypto/ssh"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Identity opens the private part of a backup.
type Identity = age.Identity

const ageIntro = "age-encryption.org/v1"

// ParseIdentities reads an identity file: age identities, one a line; such a file
// under a passphrase; or an SSH private key, with a passphrase or not. prompt is
// asked for the passphrase when there is one, and nil when nobody can be asked.
// It returns ErrInvalid, and ErrDenied for a wrong passphrase. No error shows
// what is in the file.
func ParseIdentities(file []byte, prompt func() (mesh.Secret, error)) ([]Identity, error) {
	text := bytes.TrimSpace(file)
	switch {
	case len(file) > MaxFile:
		return nil, badIdentity(fmt.Errorf("%d bytes: want at most %d", len(file), MaxFile))
	case bytes.HasPrefix(text, []byte(armor.Header)), bytes.HasPrefix(file, []byte(ageIntro)):
		return underPassphrase(file, prompt)
	case bytes.HasPrefix(text, []byte("-----BEGIN")):
		return sshIdentity(text, prompt)
	case strings.HasPrefix(string(text), "ssh-"), strings.HasPrefix(string(text), "age1"):
		return nil, badIdentity(errors.New("that is a public key; want the private one that belongs to it"))
	}
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, badIdentity(err)
	}
	return ids, nil
}

func badIdentity(err error) error {
	return mesh.WithHint(fmt.Errorf("backup: identity: %w: %w", err, mesh.ErrInvalid),
		"give a file of age-keygen, one that age has put under a passphrase, or an SSH private key (ed25519 or RSA)")
}

func ask(prompt func() (mesh.Secret, error)) (mesh.Secret, error) {
	if prompt == nil {
		return "", fmt.Errorf("backup: identity: it is under a passphrase, and nobody can be asked for it: %w", mesh.ErrInvalid)
	}
	return prompt()
}

func wrongPassphrase() error {
	return fmt.Errorf("backup: identity: wrong passphrase: %w", mesh.ErrDenied)
}

func underPassphrase(file []byte, prompt func() (mesh.Secret, error)) ([]Identity, error) {
	pass, err := ask(prompt)
	if err != nil {
		return nil, err
	}
	id, err := age.NewScryptIdentity(pass.Reveal())
	if err != nil {
		return nil, wrongPassphrase() // it is empty
	}
	id.SetMaxWorkFactor(maxWorkFactor)
	var r io.Reader = bytes.NewReader(file)
	if !bytes.HasPrefix(file, []byte(ageIntro)) {
		r = armor.NewReader(bytes.NewReader(bytes.TrimSpace(file)))
	}
	plain, err := age.Decrypt(r, id)
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return nil, wrongPassphrase()
	}
	if err != nil {
		return nil, badIdentity(err)
	}
	ids, err := age.ParseIdentities(io.LimitReader(plain, MaxFile))
	if err != nil {
		return nil, badIdentity(err)
	}
	return ids, nil
}

func sshIdentity(pem []byte, prompt func() (mesh.Secret, error)) ([]Identity, error) {
	key, err := ssh.ParseRawPrivateKey(pem)
	if _, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		pass, err := ask(prompt)
		if err != nil {
			return nil, err
		}
		key, err = ssh.ParseRawPrivateKeyWithPassphrase(pem, []byte(pass.Reveal()))
		if err != nil {
			return nil, wrongPassphrase()
		}
		return ageOfSSH(key)
	}
	if err != nil {
		return nil, badIdentity(err)
	}
	return ageOfSSH(key)
}

func ageOfSSH(key any) ([]Identity, error) {
	var id Identity
	var err error
	switch k := key.(type) {
	case *ed25519.PrivateKey:
		id, err = agessh.NewEd25519Identity(*k)
	case ed25519.PrivateKey:
		id, err = agessh.NewEd25519Identity(k)
	case *rsa.PrivateKey:
		id, err = agessh.NewRSAIdentity(k)
	default:
		err = fmt.Errorf("an SSH key of type %T", key)
	}
	if err != nil {
		return nil, badIdentity(err)
	}
	return []Identity{id}, nil
}

// Protected returns the identities under a passphrase that lie in a backup, by
// the name of the recipient: with ParseIdentities the passphrase alone restores.
func Protected(ctx context.Context, tree Tree) (map[string][]byte, error) {
	out := make(map[string][]byte)
	err := tree.Each(ctx, dirRecipients+"/", func(path string, data []byte) error {
		name, ok := strings.CutSuffix(strings.TrimPrefix(path, dirRecipients+"/"), extClosed)
		if ok && validLabel(name) && len(data) <= 64<<10 {
			out[name] = data
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("backup: read recipients: %w", err)
	}
	return out, nil
}
