package backup

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"filippo.io/age/armor"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// MinPassphrase is how many letters a passphrase of a protected identity needs.
const MinPassphrase = 12

// maxWorkFactor bounds what opening a protected identity may cost: about 15 s
// and 1 GiB.
const maxWorkFactor = 20

// ParseRecipient reads a public key that backups can be encrypted to: age1…,
// ssh-ed25519 … or ssh-rsa …, and returns the form to keep, without the comment
// of an SSH key. It returns ErrInvalid.
func ParseRecipient(s string) (key string, err error) {
	r, err := parseRecipient(s)
	if err != nil {
		return "", err
	}
	if x, ok := r.(*age.X25519Recipient); ok {
		return x.String(), nil
	}
	f := strings.Fields(s)
	return f[0] + " " + f[1], nil
}

func parseRecipient(s string) (age.Recipient, error) {
	bad := func(format string, args ...any) (age.Recipient, error) {
		return nil, fmt.Errorf("backup: recipient: "+format+": %w", append(args, mesh.ErrInvalid)...)
	}
	s = strings.TrimSpace(s)
	switch {
	case strings.ContainsAny(s, "\r\n"), len(s) > 8<<10:
		return bad("want one line with one public key")
	case strings.Contains(s, "SECRET-KEY"), strings.Contains(s, "PRIVATE KEY"):
		return bad("that is a private key; want the public one that belongs to it")
	case strings.HasPrefix(s, "age1pq1"):
		return bad("post-quantum keys cannot stand beside others in one file; want a key that begins with age1, ssh-ed25519 or ssh-rsa")
	case strings.HasPrefix(s, "age1"):
		r, err := age.ParseX25519Recipient(s)
		if err != nil {
			return bad("%w", err)
		}
		return r, nil
	case strings.HasPrefix(s, "ssh-ed25519 "), strings.HasPrefix(s, "ssh-rsa "):
		r, err := agessh.ParseRecipient(s)
		if err != nil {
			return bad("%w", err)
		}
		return r, nil
	}
	return bad("%.20q…: want a key that begins with age1, ssh-ed25519 or ssh-rsa", s)
}

// NewVerifyIdentity makes the mesh's own key, with which it proves its backups.
func NewVerifyIdentity() (recipient string, identity mesh.Secret, err error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", fmt.Errorf("backup: make an age key: %w", err)
	}
	return id.Recipient().String(), mesh.Secret(id.String()), nil
}

// NewProtected makes a key of which the identity lies in the backup itself,
// under a passphrase: age mixes passphrases with no other recipient. It takes
// about a second. It returns ErrInvalid for a passphrase that is too short.
func NewProtected(passphrase mesh.Secret) (key, protected string, err error) {
	if len([]rune(passphrase.Reveal())) < MinPassphrase {
		return "", "", fmt.Errorf("backup: passphrase: want at least %d characters: %w", MinPassphrase, mesh.ErrInvalid)
	}
	return newProtected(passphrase, 0)
}

// newProtected takes the work factor that tests turn down; 0 is age's own.
func newProtected(passphrase mesh.Secret, work int) (key, protected string, err error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", fmt.Errorf("backup: make an age key: %w", err)
	}
	pass, err := age.NewScryptRecipient(passphrase.Reveal())
	if err != nil {
		return "", "", fmt.Errorf("backup: protect an age key: %w", err)
	}
	if work > 0 {
		pass.SetWorkFactor(work)
	}
	var out bytes.Buffer
	text := armor.NewWriter(&out)
	w, err := age.Encrypt(text, pass)
	if err != nil {
		return "", "", fmt.Errorf("backup: protect an age key: %w", err)
	}
	_, err = io.WriteString(w, id.String()+"\n")
	if err := errors.Join(err, w.Close(), text.Close()); err != nil {
		return "", "", fmt.Errorf("backup: protect an age key: %w", err)
	}
	return id.Recipient().String(), out.String(), nil
}

// audience is the recipients of a backup, as age takes them.
type audience struct {
	keys        []age.Recipient
	fingerprint string // names the set; "" when nobody is in it
}

// audienceOf returns ErrInvalid for a recipient that is none. Without any that
// people hold there is no audience at all: the mesh's own key restores nothing
// when the mesh is lost.
func audienceOf(s State) (audience, error) {
	if len(s.Recipients) == 0 {
		return audience{}, nil
	}
	keys := make([]string, 0, len(s.Recipients)+1)
	for i, r := range s.Recipients {
		if !validLabel(r.Name) {
			return audience{}, fmt.Errorf("backup: recipient %q: want a name of a-z, 0-9 and hyphens: %w", mesh.Quotable(r.Name), mesh.ErrInvalid)
		}
		if slices.ContainsFunc(s.Recipients[:i], func(o Recipient) bool { return o.Name == r.Name }) {
			return audience{}, fmt.Errorf("backup: recipient %s is there twice: %w", r.Name, mesh.ErrInvalid)
		}
		keys = append(keys, r.Key)
	}
	if s.VerifyRecipient != "" {
		keys = append(keys, s.VerifyRecipient)
	}
	slices.Sort(keys)
	var a audience
	sum := sha256.New()
	for _, k := range slices.Compact(keys) {
		r, err := parseRecipient(k)
		if err != nil {
			return audience{}, err
		}
		a.keys = append(a.keys, r)
		fmt.Fprintf(sum, "%s\n", k)
	}
	a.fingerprint = hex.EncodeToString(sum.Sum(nil)[:16])
	return a, nil
}

func (a audience) empty() bool { return len(a.keys) == 0 }

// recipientFiles are those that name the recipients.
func recipientFiles(rs []Recipient) []File {
	var out []File
	for _, r := range rs {
		out = append(out, File{Path: dirRecipients + "/" + r.Name + ".txt", Data: []byte(r.Key + "\n")})
		if r.Protected != "" {
			out = append(out, File{Path: dirRecipients + "/" + r.Name + extClosed, Data: []byte(r.Protected)})
		}
	}
	slices.SortFunc(out, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return out
}
