package adminsvc

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	ageKey    = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
	protected = "-----BEGIN AGE ENCRYPTED FILE-----\ncHJvdGVjdGVk\n-----END AGE ENCRYPTED FILE-----\n"
	token     = "canary-token-4711"
)

// sshKey is a private key and its public half, a line of authorized_keys.
func sshKey(t *testing.T, passphrase string) (private, public string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "canary")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "canary", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub)))
}

func (r *rig) remote(name string) admin.BackupView {
	r.t.Helper()
	return must(r.backupRemoteAdd(r.ctx(), admin.BackupRemoteAddRequest{Name: name, URL: "/srv/" + name + ".git", Auth: mesh.BackupAuthNone}))(r.t)
}

func TestBackupWithoutRecipientIsLoud(t *testing.T) {
	r := newRig(t)
	v := must(r.backupGet(r.as(mesh.AdminAuditor), admin.None{}))(t)
	if v.Settings.Every != mesh.Duration(10*time.Second) || v.Root == "" || v.Settings.Remotes == nil {
		t.Errorf("before any change: %+v", v)
	}
	wantWarning(t, v, "NO RECIPIENT", true)
	wantWarning(t, v, "nothing is backed up", true)
	for _, ask := range []func() (admin.BackupView, error){
		func() (admin.BackupView, error) { return r.remote("disk"), nil },
		func() (admin.BackupView, error) { return r.backupRun(r.ctx(), admin.None{}) },
		func() (admin.BackupView, error) {
			return r.backupSet(r.ctx(), admin.BackupSetRequest{Every: new(mesh.Duration(time.Minute))})
		},
	} {
		wantWarning(t, must(ask())(t), "NO RECIPIENT", true)
	}
	v = must(r.backupRecipientAdd(r.ctx(), admin.BackupRecipientAddRequest{Name: "safe", Key: ageKey + "\n"}))(t)
	wantWarning(t, v, "NO RECIPIENT", false)
	wantWarning(t, v, "no backup was ever restored", true)
	v = must(r.backupRecipientRemove(r.ctx(), admin.Ref{Ref: "safe"}))(t)
	wantWarning(t, v, "NO RECIPIENT", true)
}

func wantWarning(t *testing.T, v admin.BackupView, text string, want bool) {
	t.Helper()
	if got := strings.Contains(strings.Join(v.Warnings, "\n"), text); got != want {
		t.Errorf("warning %q is there: %v, want %v, in %q", text, got, want, v.Warnings)
	}
}

func TestBackupRunAndVerifyAreCounted(t *testing.T) {
	r := newRig(t)
	_, err := r.backupRun(r.ctx(), admin.None{})
	refused(t, err, mesh.ErrConflict, "remote add")
	_, err = r.backupVerify(r.ctx(), admin.None{})
	refused(t, err, mesh.ErrConflict, "remote add")
	r.remote("disk")
	must(r.backupRun(r.ctx(), admin.None{}))(t)
	v := must(r.backupRun(r.ctx(), admin.None{}))(t)
	if v = must(r.backupVerify(r.ctx(), admin.None{}))(t); v.Settings.Run != 2 || v.Settings.Verify != 1 {
		t.Errorf("run %d, verify %d", v.Settings.Run, v.Settings.Verify)
	}
	if rec := r.audits()[0]; rec.Action != "backup.verify" || rec.Actor != "admin:test" {
		t.Errorf("audit says %+v", rec)
	}
}

func TestBackupSetChecksTheWhole(t *testing.T) {
	r := newRig(t)
	_, err := r.backupSet(r.ctx(), admin.BackupSetRequest{Every: new(mesh.Duration(1)), CopiesDir: new("copies")})
	refused(t, err, mesh.ErrInvalid, "copies.dir")
	refused(t, err, mesh.ErrInvalid, "every 1ns")
	v := must(r.backupSet(r.ctx(), admin.BackupSetRequest{
		Every: new(mesh.Duration(time.Minute)), PlaintextObjects: new(true), CopiesDir: new("/var/copies"), CopiesKeep: new(3),
	}))(t)
	if v.Settings.Every != mesh.Duration(time.Minute) || !v.Settings.PlaintextObjects || v.Settings.Copies.Keep != 3 || v.Settings.Copies.Every == 0 {
		t.Errorf("%+v", v.Settings)
	}
	v = must(r.backupSet(r.ctx(), admin.BackupSetRequest{Every: new(mesh.Duration(0))}))(t)
	if v.Settings.Every != mesh.Duration(10*time.Second) || !v.Settings.PlaintextObjects {
		t.Errorf("0 does not bring the default back, or changed more: %+v", v.Settings)
	}
}

func TestBackupRemotes(t *testing.T) {
	r := newRig(t)
	private, public := sshKey(t, "")
	locked, _ := sshKey(t, "hunter2")
	host := "git.example.net " + strings.Join(strings.Fields(public)[:2], " ")
	add := func(change func(*admin.BackupRemoteAddRequest)) (admin.BackupView, error) {
		req := admin.BackupRemoteAddRequest{Name: "forge", URL: "git@git.example.net:ops/mesh.git", Auth: mesh.BackupAuthSSHKey, Credential: private, KnownHosts: []string{host}}
		change(&req)
		return r.backupRemoteAdd(r.ctx(), req)
	}
	for name, c := range map[string]struct {
		change func(*admin.BackupRemoteAddRequest)
		says   string
	}{
		"a key with a passphrase":    {func(q *admin.BackupRemoteAddRequest) { q.Credential = locked }, "ssh-keygen -t ed25519"},
		"a key that is none":         {func(q *admin.BackupRemoteAddRequest) { q.Credential = "hunter2" }, "not a private key"},
		"no key":                     {func(q *admin.BackupRemoteAddRequest) { q.Credential = "" }, "--ssh-key"},
		"no host key":                {func(q *admin.BackupRemoteAddRequest) { q.KnownHosts = nil }, "no host key is known"},
		"a host key that is none":    {func(q *admin.BackupRemoteAddRequest) { q.KnownHosts = []string{"host ssh-ed25519 AAAA"} }, "ssh-keyscan"},
		"a password in the URL":      {func(q *admin.BackupRemoteAddRequest) { q.URL = "https://u:hunter2@host/x" }, "no password"},
		"a token for SSH":            {func(q *admin.BackupRemoteAddRequest) { q.Auth, q.Credential = mesh.BackupAuthToken, "x" }, "https:// only"},
		"a secret that nothing uses": {func(q *admin.BackupRemoteAddRequest) { q.Auth = mesh.BackupAuthAgent }, "does not use"},
		"a name that is a path":      {func(q *admin.BackupRemoteAddRequest) { q.Name = "a/b" }, "inner hyphens"},
		"a token with a line break": {func(q *admin.BackupRemoteAddRequest) {
			q.URL, q.Auth, q.Credential, q.KnownHosts = "https://h/x", mesh.BackupAuthToken, "a\nb", nil
		}, "one word"},
	} {
		_, err := add(c.change)
		if !errors.Is(err, mesh.ErrInvalid) || !strings.Contains(err.Error()+mesh.Hint(err), c.says) {
			t.Errorf("%s: %v (%s)", name, err, mesh.Hint(err))
		}
		if err != nil && strings.Contains(err.Error()+mesh.Hint(err), "hunter2") {
			t.Errorf("%s: the error holds the secret: %v", name, err)
		}
	}
	v := must(add(func(*admin.BackupRemoteAddRequest) {}))(t)
	if got := v.Settings.Remotes[0]; got.Public != public || got.Branch != "main" {
		t.Errorf("%+v", got)
	}
	_, err := add(func(*admin.BackupRemoteAddRequest) {})
	refused(t, err, mesh.ErrExists, "--replace")
	v = must(add(func(q *admin.BackupRemoteAddRequest) { q.Replace, q.Branch = true, "mesh" }))(t)
	if len(v.Settings.Remotes) != 1 || v.Settings.Remotes[0].Branch != "mesh" {
		t.Errorf("%+v", v.Settings.Remotes)
	}
	other, _ := sshKey(t, "")
	moved := strings.Replace(host, strings.Fields(host)[2], strings.Fields(must(publicSSH(mesh.Secret(other)))(t))[1], 1)
	v = must(add(func(q *admin.BackupRemoteAddRequest) {
		q.Replace, q.Credential, q.KnownHosts = true, "", []string{moved}
	}))(t)
	if got := v.Settings.Remotes[0]; got.Public != public || !slices.Equal(got.KnownHosts, []string{moved}) {
		t.Errorf("another key of the host took the login away: %+v", got)
	}
	_, err = add(func(q *admin.BackupRemoteAddRequest) {
		q.Replace, q.Credential, q.URL = true, "", "git@git.example.net:ops/other.git"
	})
	refused(t, err, mesh.ErrInvalid, "--ssh-key")
	_, err = r.backupRemoteRemove(r.ctx(), admin.Ref{Ref: "forgee"})
	refused(t, err, mesh.ErrNotFound, "did you mean forge?")
	if v = must(r.backupRemoteRemove(r.ctx(), admin.Ref{Ref: "forge"}))(t); len(v.Settings.Remotes) != 0 {
		t.Errorf("%+v", v.Settings.Remotes)
	}
	_, err = r.backupRecipientRemove(r.ctx(), admin.Ref{Ref: "x"})
	refused(t, err, mesh.ErrNotFound, "recipient list")
}

// G-03: what is secret in the settings is in no view, audit record or event.
func TestBackupSecretsAreShownNowhere(t *testing.T) {
	r := newRig(t)
	private, _ := sshKey(t, "")
	canary := strings.Split(private, "\n")[2] // a line of the key's own bytes
	must(r.backupRemoteAdd(r.ctx(), admin.BackupRemoteAddRequest{Name: "web", URL: "https://h/x.git", Auth: mesh.BackupAuthToken, Credential: token}))(t)
	must(r.backupSet(r.ctx(), admin.BackupSetRequest{SignKey: &private}))(t)
	v := must(r.backupRecipientAdd(r.ctx(), admin.BackupRecipientAddRequest{Name: "safe", Key: ageKey, Protected: protected}))(t)
	if !v.Settings.Recipients[0].Protected || v.Settings.SignPublic == "" {
		t.Errorf("%+v", v.Settings)
	}
	events := must(r.eventList(r.ctx(), admin.EventListRequest{}))(t)
	for what, shown := range map[string]any{"view": v, "audit": r.audits(), "events": events} {
		text, err := json.Marshal(shown)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{token, canary, "cHJvdGVjdGVk", mesh.SealedPrefix} {
			if strings.Contains(string(text), secret) {
				t.Errorf("the %s shows %s: %s", what, secret, text)
			}
		}
	}
	b := must(r.Store.Backup.Get(r.ctx(), store.BackupKey))(t).Value
	if got := must(r.Store.Unseal(store.BackupRemotePlace("web"), b.Remotes[0].Credential))(t); got.Reveal() != token {
		t.Error("the token does not come back for who makes backups")
	}
	if got := must(r.Store.Unseal(store.BackupSignPlace(), b.SignKey))(t); got.Reveal() != private {
		t.Error("the key that signs does not come back")
	}
}

// Whoever can read backups has the mesh's keys, which no role gives.
func TestBackupReadersAreAnnounced(t *testing.T) {
	r := newRig(t)
	must(r.backupRecipientAdd(r.ctx(), admin.BackupRecipientAddRequest{Name: "mine", Key: ageKey}))(t)
	must(r.backupRecipientRemove(r.ctx(), admin.Ref{Ref: "mine"}))(t)
	if _, err := r.backupRecipientRemove(r.ctx(), admin.Ref{Ref: "mine"}); err == nil {
		t.Error("removed twice")
	}
	events := must(r.eventList(r.ctx(), admin.EventListRequest{Type: mesh.EventBackupReaders}))(t).Items
	if len(events) != 2 || !strings.Contains(events[1].Cause, "admin:test: recipient mine was added") || events[1].Severity != mesh.Warning {
		t.Errorf("%+v", events)
	}
}

func TestBackupStateIsJudged(t *testing.T) {
	r := newRig(t)
	must(r.backupRecipientAdd(r.ctx(), admin.BackupRecipientAddRequest{Name: "safe", Key: ageKey}))(t)
	r.remote("disk")
	st := mesh.BackupState{
		Remotes: []mesh.BackupRemoteState{{Name: "disk", Pushed: time.Now(), Failures: 3, Reason: "disk full", Conflict: "conflict/x"}},
		Proof:   mesh.BackupProofState{At: time.Now(), Problem: "device/d1 differs"}, Held: "no quorum",
		Copy: mesh.BackupCopyState{Problem: "no space"},
	}
	if _, err := r.Store.Update(r.ctx(), func(tx *store.Tx) error {
		return store.Create(tx, r.Store.BackupState, store.BackupStateKey, st)
	}); err != nil {
		t.Fatal(err)
	}
	v := must(r.backupGet(r.ctx(), admin.None{}))(t)
	for _, w := range []string{"disk full", "conflict/x", "device/d1 differs", "no quorum", "no space"} {
		wantWarning(t, v, w, true)
	}
	v = must(r.backupRemoteSettle(r.ctx(), admin.Ref{Ref: "disk"}))(t)
	wantWarning(t, v, "conflict/x", false)
	if b := must(r.Store.Backup.Get(r.ctx(), store.BackupKey))(t).Value; b.Remotes[0].Settled != "conflict/x" {
		t.Errorf("%+v", b.Remotes)
	}
	_, err := r.backupRemoteSettle(r.ctx(), admin.Ref{Ref: "dusk"})
	refused(t, err, mesh.ErrNotFound, "did you mean disk?")
}
