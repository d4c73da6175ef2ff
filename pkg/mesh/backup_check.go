package mesh

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"
)

// Bounds of the settings.
const (
	maxRecipients   = 16
	maxRemotes      = 8
	maxKnownHosts   = 16
	maxBackupText   = 4 << 10 // a key, a line of known_hosts, an URL
	maxProtected    = 8 << 10
	maxBackupPeriod = 366 * 24 * time.Hour
	minBackupPeriod = time.Second
	maxCopies       = 10_000
	protectedPrefix = "-----BEGIN AGE ENCRYPTED FILE-----"
)

// Validate reports every fault at once. It returns ErrInvalid.
func (s BackupSettings) Validate() error {
	var errs []error
	add := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("mesh: backup: "+format+": %w", append(args, ErrInvalid)...))
		}
	}
	period := func(name string, d Duration) {
		add(d == 0 || d >= Duration(minBackupPeriod) && d <= Duration(maxBackupPeriod), "%s %v: want %v to 8784h", name, d, minBackupPeriod)
	}
	period("every", s.Every)
	period("heartbeat", s.Heartbeat)
	period("proveEvery", s.ProveEvery)
	period("totalsEvery", s.TotalsEvery)
	period("copies.every", s.Copies.Every)
	add(s.Copies.Keep >= 0 && s.Copies.Keep <= maxCopies, "copies.keep %d: want 1 to %d", s.Copies.Keep, maxCopies)
	add(s.Copies.Dir == "" || path.IsAbs(s.Copies.Dir) && plainText(s.Copies.Dir), "copies.dir %q: want an absolute path", Quotable(s.Copies.Dir))
	add(len(s.Recipients) <= maxRecipients, "%d recipients: want at most %d", len(s.Recipients), maxRecipients)
	add(len(s.Remotes) <= maxRemotes, "%d remotes: want at most %d", len(s.Remotes), maxRemotes)
	names, keys := make(map[string]bool), make(map[string]bool)
	for _, r := range s.Recipients {
		add(!names[r.Name], "recipient %q is there twice", Quotable(r.Name))
		add(!keys[r.Key], "recipient %q has the key of another", Quotable(r.Name))
		names[r.Name], keys[r.Key] = true, true
		errs = append(errs, r.Validate())
	}
	clear(names)
	for _, r := range s.Remotes {
		add(!names[r.Name], "remote %q is there twice", Quotable(r.Name))
		names[r.Name] = true
		errs = append(errs, r.Validate())
	}
	return errors.Join(errs...)
}

// CheckBackupName checks the name of a recipient or a remote, which becomes the
// name of a file: 1 to 63 lower-case letters, digits and inner hyphens. It
// returns ErrInvalid.
func CheckBackupName(s string) error {
	if s != foldASCII(s) || !isLDH(s) {
		return fmt.Errorf("mesh: backup: name %q: want 1 to 63 of a-z, 0-9 and inner hyphens: %w", Quotable(s), ErrInvalid)
	}
	return nil
}

// Validate checks the form of the key. It returns ErrInvalid.
func (r BackupRecipient) Validate() error {
	bad := func(why string) error {
		return fmt.Errorf("mesh: backup: recipient %q: %s: %w", Quotable(r.Name), why, ErrInvalid)
	}
	if err := CheckBackupName(r.Name); err != nil {
		return err
	}
	kind, _, _ := strings.Cut(r.Key, " ")
	switch {
	case strings.HasPrefix(r.Key, "AGE-SECRET-KEY-"), strings.Contains(r.Key, "PRIVATE KEY"):
		return bad("this is a private key; want the public one")
	case len(r.Key) > maxBackupText || !plainText(r.Key):
		return bad("want one line of at most 4096 bytes")
	case kind == "ssh-ed25519" || kind == "ssh-rsa":
		if err := checkSSHKey(r.Key); err != nil {
			return bad(err.Error())
		}
	case !isAgeKey(r.Key):
		return bad("want an age key (age1…) or an SSH key (ssh-ed25519 or ssh-rsa)")
	}
	if r.Protected != "" && (len(r.Protected) > maxProtected || !strings.HasPrefix(r.Protected, protectedPrefix)) {
		return bad("the protected identity is not an armored age file")
	}
	return nil
}

// isAgeKey says whether s looks like an X25519 recipient of age: 32 bytes in
// bech32, whose checksum pkg/backup verifies.
func isAgeKey(s string) bool {
	rest, ok := strings.CutPrefix(s, "age1")
	return ok && len(rest) == 58 && strings.Trim(rest, "qpzry9x8gf2tvdw0s3jn54khce6mua7l") == ""
}

// checkSSHKey checks an authorized_keys line without options.
func checkSSHKey(line string) error {
	f := strings.Fields(line)
	if len(f) < 2 {
		return errors.New("the SSH key ends after its kind")
	}
	b, err := base64.StdEncoding.DecodeString(f[1])
	if err != nil || len(b) < 4 {
		return errors.New("the SSH key is not base64")
	}
	if n := binary.BigEndian.Uint32(b); uint64(n) > uint64(len(b)-4) || string(b[4:4+n]) != f[0] {
		return errors.New("the SSH key is not of the kind it says")
	}
	return nil
}

// RemoteKind is how a remote is reached.
type RemoteKind string

// Kinds of remotes.
const (
	RemotePath  RemoteKind = "path" // also file://
	RemoteSSH   RemoteKind = "ssh"
	RemoteHTTPS RemoteKind = "https" // also http:// to this machine
)

// ParseRemoteURL says how a remote is reached, and as whom when the URL names
// that. It returns ErrInvalid, without what the URL holds beside the reason.
func ParseRemoteURL(s string) (kind RemoteKind, user string, err error) {
	bad := func(why string) (RemoteKind, string, error) {
		err := fmt.Errorf("mesh: backup: URL of a remote: %s: %w", why, ErrInvalid)
		return "", "", WithHint(err, "URLs look like ssh://git@host/path, git@host:path, https://host/path, file:///path or /path")
	}
	if s == "" || len(s) > maxBackupText || !plainText(s) {
		return bad("want one line of at most 4096 bytes")
	}
	scheme, _, isURL := strings.Cut(s, "://")
	if !isURL {
		if path.IsAbs(s) {
			return RemotePath, "", nil
		}
		login, p, ok := strings.Cut(s, ":")
		user, host, named := strings.Cut(login, "@")
		if !named {
			user, host = "", login
		}
		if !ok || p == "" || p[0] == ':' || host == "" || strings.HasPrefix(login, "-") || strings.ContainsAny(login, "/ []") || named && user == "" {
			return bad("want an absolute path, host:path, or ssh://, https:// or file://")
		}
		return RemoteSSH, user, nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return bad("not readable")
	case strings.HasPrefix(u.User.Username(), "-"):
		return bad("a user does not begin with a hyphen")
	case u.RawQuery != "" || u.Fragment != "":
		return bad("no query and no fragment")
	}
	if _, ok := u.User.Password(); ok {
		return bad("no password: give it in a file, which is kept sealed")
	}
	switch scheme {
	case "file":
		if u.Host != "" || !path.IsAbs(u.Path) {
			return bad("file:// wants an absolute path after it, file:///path")
		}
		return RemotePath, "", nil
	case "ssh", "https", "http":
		if u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.Trim(u.Path, "/") == "" {
			return bad("want a host and a path")
		}
	default:
		return bad("want ssh://, https://, file:// or an absolute path")
	}
	if scheme == "http" && !loopback(u.Hostname()) {
		return bad("http:// would show the token to everybody on the way; want https://")
	}
	if scheme == "ssh" {
		return RemoteSSH, u.User.Username(), nil
	}
	return RemoteHTTPS, u.User.Username(), nil
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// Validate checks that the parts fit each other. It returns ErrInvalid.
func (r BackupRemote) Validate() error {
	bad := func(why string) error {
		return fmt.Errorf("mesh: backup: remote %q: %s: %w", Quotable(r.Name), why, ErrInvalid)
	}
	if err := CheckBackupName(r.Name); err != nil {
		return err
	}
	kind, user, err := ParseRemoteURL(r.URL)
	switch {
	case err != nil:
		return err
	case !isBranch(r.Branch):
		return bad("branch: want the name of a branch, such as main")
	case user != "" && r.User != "" && user != r.User:
		return bad("the URL names another user")
	case len(r.User) > 100 || !plainText(r.User) || strings.ContainsAny(r.User, ":@/ "):
		return bad("user: want a plain name")
	}
	switch r.Auth {
	case BackupAuthNone:
		err = r.wants(kind != RemoteSSH, "SSH wants a key or an agent")
	case BackupAuthAgent, BackupAuthSSHKey:
		err = r.wants(kind == RemoteSSH, "an SSH key serves SSH only")
	case BackupAuthToken:
		err = r.wants(kind == RemoteHTTPS, "a token serves https:// only")
	default:
		return bad("auth: want none, agent, ssh-key or token")
	}
	sealed := r.Auth == BackupAuthSSHKey || r.Auth == BackupAuthToken
	return errors.Join(err,
		r.wants(sealed == (r.Credential != ""), "a key or a token is there, or is not, against what auth says"),
		r.checkHosts(kind))
}

func (r BackupRemote) wants(ok bool, why string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("mesh: backup: remote %q: %s: %w", Quotable(r.Name), why, ErrInvalid)
}

// checkHosts wants host keys for SSH: the first one met is not trusted.
func (r BackupRemote) checkHosts(kind RemoteKind) error {
	if kind != RemoteSSH {
		return r.wants(len(r.KnownHosts) == 0, "host keys serve SSH only")
	}
	err := errors.Join(
		r.wants(len(r.KnownHosts) > 0, "no host key is known, and the first one met is not trusted"),
		r.wants(len(r.KnownHosts) <= maxKnownHosts, "more than 16 host keys"))
	for _, l := range r.KnownHosts {
		f := strings.Fields(l)
		if len(f) > 0 && strings.HasPrefix(f[0], "@") {
			f = f[1:]
		}
		if len(f) < 3 || len(l) > maxBackupText || !plainText(l) {
			return errors.Join(err, r.wants(false, "a host key is not a line of known_hosts: HOST KIND KEY"))
		}
	}
	return err
}

// isBranch follows git-check-ref-format, a little stricter. A branch "conflict"
// would leave no room for those in conflict/.
func isBranch(s string) bool {
	if s == "" || s == "HEAD" || len(s) > 200 || strings.Contains(s, "..") || strings.HasPrefix(s, "-") {
		return false
	}
	if first, _, _ := strings.Cut(s, "/"); first == "conflict" || first == "refs" {
		return false
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r == '-' || r == '_' || r == '.' || r == '/' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
}

// plainText says whether s is on one line and has nothing that a terminal obeys.
func plainText(s string) bool { return !strings.ContainsFunc(s, unicode.IsControl) }
