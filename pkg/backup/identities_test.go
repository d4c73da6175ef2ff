package backup_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const passphrase mesh.Secret = "correct horse battery"

func say(s mesh.Secret) func() (mesh.Secret, error) {
	return func() (mesh.Secret, error) { return s, nil }
}

// sshKey is a public key as authorized_keys has it, with a comment, and the
// private one, once open and once under the passphrase.
func sshKey(t *testing.T, key crypto.Signer) (public string, private, protected []byte) {
	t.Helper()
	pub, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	open, err := ssh.MarshalPrivateKey(key, "me@home")
	if err != nil {
		t.Fatal(err)
	}
	closed, err := ssh.MarshalPrivateKeyWithPassphrase(key, "me@home", []byte(passphrase.Reveal()))
	if err != nil {
		t.Fatal(err)
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub))) + " me@home"
	return line, pem.EncodeToMemory(open), pem.EncodeToMemory(closed)
}

// TestEveryKindOfIdentityReads: age, a passphrase, and SSH keys of both kinds,
// with and without passphrase.
func TestEveryKindOfIdentityReads(t *testing.T) {
	w := newWorld(t)
	w.state.Objects = devices(3)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaPub, rsaPriv, rsaProtected := sshKey(t, rsaKey)
	edPub, edPriv, edProtected := sshKey(t, edKey)
	key, protected, err := backup.NewProtectedAt(passphrase, 1)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"age":                 []byte("# created: today\n# public key: age1x\n" + w.alice.String() + "\n"),
		"passphrase":          []byte(protected),
		"ssh-rsa":             rsaPriv,
		"ssh-rsa-protected":   rsaProtected,
		"ssh-ed":              edPriv,
		"ssh-ed-protected":    edProtected,
		"passphrase-unpacked": nil, // from the backup itself
	}
	for name, key := range map[string]string{"passphrase": key, "rsa": rsaPub, "ed": edPub} {
		parsed, err := backup.ParseRecipient(" " + key + "\n")
		if err != nil || strings.Contains(parsed, "me@home") {
			t.Fatalf("%s: %q, %v", name, parsed, err)
		}
		r := backup.Recipient{Name: name, Key: parsed}
		if name == "passphrase" {
			r.Protected = protected
		}
		w.state.Recipients = append(w.state.Recipients, r)
	}
	tree := make(backup.Files)
	w.draft(tree)
	lying, err := backup.Protected(t.Context(), tree)
	if err != nil || len(lying) != 1 {
		t.Fatalf("got %d, %v", len(lying), err)
	}
	files["passphrase-unpacked"] = lying["passphrase"]
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			ids, err := backup.ParseIdentities(file, say(passphrase))
			if err != nil {
				t.Fatal(err)
			}
			s, err := backup.Read(t.Context(), tree, ids, w.opts())
			if err != nil {
				t.Fatal(err)
			}
			sameState(t, w.state, s)
			if len(s.Recipients) != 4 || s.Recipients[2].Protected != protected || s.Recipients[3].Key+" me@home" != rsaPub {
				t.Errorf("recipients %+v", s.Recipients)
			}
		})
	}
	asked := errors.New("asked")
	for _, name := range []string{"passphrase", "ssh-rsa-protected", "ssh-ed-protected"} {
		if _, err := backup.ParseIdentities(files[name], say("wrong passphrase")); !errors.Is(err, mesh.ErrDenied) {
			t.Errorf("%s: wrong passphrase: %v", name, err)
		}
		if _, err := backup.ParseIdentities(files[name], nil); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: nobody to ask: %v", name, err)
		}
		if _, err := backup.ParseIdentities(files[name], func() (mesh.Secret, error) { return "", asked }); !errors.Is(err, asked) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsNoIdentity(t *testing.T) {
	id := newAge(t)
	for name, file := range map[string]string{
		"nothing":             "",
		"a recipient":         id.Recipient().String(),
		"an SSH public key":   "ssh-ed25519 AAAA",
		"a certificate":       string(newWorld(t).pem),
		"a damaged age key":   id.String()[:50],
		"something with it":   id.String() + "\nsecret canary\n",
		"a damaged file":      "-----BEGIN AGE ENCRYPTED FILE-----\nAAAA\n-----END AGE ENCRYPTED FILE-----\n",
		"an unarmoured start": "age-encryption.org/v1\n-> X25519 x\n",
	} {
		ids, err := backup.ParseIdentities([]byte(file), say(passphrase))
		if len(ids) > 0 || !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: got %d, %v", name, len(ids), err)
			continue
		}
		if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), id.String()[:30]) {
			t.Errorf("%s: the error shows the file: %v", name, err)
		}
	}
}

func TestWhatIsNoRecipient(t *testing.T) {
	for _, s := range []string{
		"", "x", "age1", "age1pq1abc", newAge(t).String(), "ssh-dss AAAA", "ssh-ed25519 AAAA", "ssh-rsa", "ecdsa-sha2-nistp256 AAAA",
		newAge(t).Recipient().String() + "\n" + newAge(t).Recipient().String(), "ssh-ed25519 " + strings.Repeat("A", 10000),
	} {
		if key, err := backup.ParseRecipient(s); !errors.Is(err, mesh.ErrInvalid) || strings.Contains(err.Error(), "SECRET-KEY-1") {
			t.Errorf("%.40q: got %q, %v", s, key, err)
		}
	}
}

func TestPassphrases(t *testing.T) {
	if _, _, err := backup.NewProtected("short"); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	key, protected, err := backup.NewProtected(passphrase)
	if err != nil || !strings.HasPrefix(protected, "-----BEGIN AGE ENCRYPTED FILE-----\n") {
		t.Fatalf("got %.60s, %v", protected, err)
	}
	if parsed, err := backup.ParseRecipient(key); err != nil || parsed != key {
		t.Errorf("got %s, %v", parsed, err)
	}
	if _, err := backup.ParseIdentities([]byte(protected), say(passphrase)); err != nil {
		t.Error(err)
	}
}

func TestTheVerifyIdentityReads(t *testing.T) {
	recipient, identity, err := backup.NewVerifyIdentity()
	if err != nil {
		t.Fatal(err)
	}
	w, tree := newWorld(t), make(backup.Files)
	w.state.VerifyRecipient = recipient
	w.state.Objects = devices(3)
	w.draft(tree)
	ids, err := backup.ParseIdentities([]byte(identity.Reveal()), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := backup.Read(t.Context(), tree, ids, w.opts())
	if err != nil {
		t.Fatal(err)
	}
	sameState(t, w.state, s)
}

func TestStreams(t *testing.T) {
	id := newAge(t)
	var out bytes.Buffer
	if _, err := backup.Seal(&out); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("nobody to read it: %v", err)
	}
	if _, err := backup.Seal(&out, "age1x"); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("no recipient: %v", err)
	}
	w, err := backup.Seal(&out, id.Recipient().String())
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("canary ", 100000)
	if _, err := io.WriteString(w, text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "canary") {
		t.Error("it is legible")
	}
	data := out.Bytes()
	r, err := backup.Open(bytes.NewReader(data), id)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != text {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if _, err := backup.Open(bytes.NewReader(data), newAge(t)); err == nil {
		t.Error("another identity opens it")
	}
}
