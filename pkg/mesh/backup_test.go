package mesh

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

const (
	testAgeKey  = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
	testSSHKey  = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0nN2QeXzOtZ0e3uJmJyVq4r1yq6p3K0m1b2c3d4e5f ops@host"
	testHostKey = "git.example.net ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0nN2QeXzOtZ0e3uJmJyVq4r1yq6p3K0m1b2c3d4e5f"
	testSealed  = Sealed(SealedPrefix + "c2VjcmV0")
)

func sampleBackup() BackupSettings {
	return BackupSettings{
		Recipients: []BackupRecipient{
			{Name: "safe", Key: testAgeKey, Protected: protectedPrefix + "\nYWdl\n-----END AGE ENCRYPTED FILE-----\n"},
			{Name: "laptop", Key: testSSHKey},
		},
		Remotes: []BackupRemote{
			{Name: "disk", URL: "/srv/mesh.git", Branch: "main", Auth: BackupAuthNone},
			{Name: "forge", URL: "git@git.example.net:ops/mesh.git", Branch: "main", Auth: BackupAuthSSHKey, Credential: testSealed, KnownHosts: []string{testHostKey}},
			{Name: "web", URL: "https://git.example.net/ops/mesh.git", Branch: "mesh/prod", User: "bot", Auth: BackupAuthToken, Credential: testSealed},
		},
		Every:  Duration(time.Minute),
		Copies: BackupCopies{Dir: "/var/backups/mesh", Every: Duration(time.Hour), Keep: 3},
	}
}

func TestBackupSettingsValidate(t *testing.T) {
	if err := sampleBackup().Validate(); err != nil {
		t.Fatalf("good settings: %v", err)
	}
	if err := (BackupSettings{}).Validate(); err != nil {
		t.Fatalf("none: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*BackupSettings)
		want   string
	}{
		"too often":          {func(s *BackupSettings) { s.Every = Duration(time.Millisecond) }, "every 1ms"},
		"never negative":     {func(s *BackupSettings) { s.Heartbeat = -1 }, "heartbeat"},
		"relative copies":    {func(s *BackupSettings) { s.Copies.Dir = "copies" }, "absolute path"},
		"copies without end": {func(s *BackupSettings) { s.Copies.Keep = -1 }, "copies.keep"},
		"a recipient twice":  {func(s *BackupSettings) { s.Recipients[1].Name = "safe" }, "there twice"},
		"a key twice":        {func(s *BackupSettings) { s.Recipients[1].Key = testAgeKey }, "key of another"},
		"a private age key":  {func(s *BackupSettings) { s.Recipients[0].Key = "AGE-SECRET-KEY-1XYZ" }, "private key"},
		"a private SSH key":  {func(s *BackupSettings) { s.Recipients[0].Key = "-----BEGIN OPENSSH PRIVATE KEY-----" }, "private key"},
		"a key that is none": {func(s *BackupSettings) { s.Recipients[0].Key = "hello" }, "want an age key"},
		"a key of two lines": {func(s *BackupSettings) { s.Recipients[1].Key = testSSHKey + "\nssh-rsa x" }, "one line"},
		"an SSH key of another": {func(s *BackupSettings) {
			s.Recipients[1].Key = strings.Replace(testSSHKey, "ssh-ed25519", "ssh-rsa", 1)
		}, "kind it says"},
		"a protected that is plain":  {func(s *BackupSettings) { s.Recipients[0].Protected = "AGE-SECRET-KEY-1XYZ" }, "armored age file"},
		"a name that is a path":      {func(s *BackupSettings) { s.Remotes[0].Name = "../x" }, "inner hyphens"},
		"a name in capitals":         {func(s *BackupSettings) { s.Recipients[0].Name = "Safe" }, "inner hyphens"},
		"a remote twice":             {func(s *BackupSettings) { s.Remotes[1].Name = "disk" }, "there twice"},
		"no host key":                {func(s *BackupSettings) { s.Remotes[1].KnownHosts = nil }, "no host key is known"},
		"half a host key":            {func(s *BackupSettings) { s.Remotes[1].KnownHosts = []string{"host ssh-ed25519"} }, "HOST KIND KEY"},
		"a host key for a path":      {func(s *BackupSettings) { s.Remotes[0].KnownHosts = []string{testHostKey} }, "SSH only"},
		"a token for SSH":            {func(s *BackupSettings) { s.Remotes[1].Auth = BackupAuthToken }, "https:// only"},
		"an SSH key for HTTPS":       {func(s *BackupSettings) { s.Remotes[2].Auth = BackupAuthSSHKey }, "SSH only"},
		"SSH without a key":          {func(s *BackupSettings) { s.Remotes[1].Auth, s.Remotes[1].Credential = BackupAuthNone, "" }, "key or an agent"},
		"a key that is missing":      {func(s *BackupSettings) { s.Remotes[1].Credential = "" }, "against what auth says"},
		"no auth":                    {func(s *BackupSettings) { s.Remotes[0].Auth = "" }, "want none, agent"},
		"two users":                  {func(s *BackupSettings) { s.Remotes[1].User = "bob" }, "another user"},
		"a branch of conflicts":      {func(s *BackupSettings) { s.Remotes[0].Branch = "conflict/x" }, "branch"},
		"no room for conflicts":      {func(s *BackupSettings) { s.Remotes[0].Branch = "conflict" }, "branch"},
		"a reference for a branch":   {func(s *BackupSettings) { s.Remotes[0].Branch = "refs/heads/main" }, "branch"},
		"a branch that is an option": {func(s *BackupSettings) { s.Remotes[0].Branch = "-f" }, "branch"},
		"a branch that is a refspec": {func(s *BackupSettings) { s.Remotes[0].Branch = "a:b" }, "branch"},
	} {
		s := sampleBackup()
		c.change(&s)
		if err := s.Validate(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestBackupSettingsReportAllFaults(t *testing.T) {
	s := sampleBackup()
	s.Every, s.Recipients[0].Key, s.Remotes[0].URL = -1, "x", "nowhere"
	err := s.Validate()
	for _, want := range []string{"every", `recipient "safe"`, "URL of a remote"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestParseRemoteURL(t *testing.T) {
	for in, want := range map[string]struct {
		kind RemoteKind
		user string
	}{
		"/srv/mesh.git":                     {RemotePath, ""},
		"file:///srv/mesh.git":              {RemotePath, ""},
		"git@host:ops/mesh.git":             {RemoteSSH, "git"},
		"host:mesh.git":                     {RemoteSSH, ""},
		"ssh://git@[::1]:2222/srv/mesh.git": {RemoteSSH, "git"},
		"https://host/mesh.git":             {RemoteHTTPS, ""},
		"http://127.0.0.1:3000/mesh.git":    {RemoteHTTPS, ""},
	} {
		kind, user, err := ParseRemoteURL(in)
		if err != nil || kind != want.kind || user != want.user {
			t.Errorf("%s: %s %q %v, want %v", in, kind, user, err, want)
		}
	}
	for _, in := range []string{
		"", "mesh.git", "./mesh.git", "git://host/mesh", "http://host/mesh.git", "https://host", "https://u:pw@host/mesh",
		"https://host/mesh?x=1", "file://host/mesh", "ssh://-x@host/mesh", "ssh://-oProxyCommand=x/y", "-oProxyCommand=x:y", "@host:x", "host:", "ext::sh -c x", "/a\nb",
	} {
		_, _, err := ParseRemoteURL(in)
		if !errors.Is(err, ErrInvalid) || Hint(err) == "" {
			t.Errorf("%q: %v with hint %q", in, err, Hint(err))
		}
		if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("the error names the password: %v", err)
		}
	}
}

func TestBackupDefaults(t *testing.T) {
	s := BackupSettings{Every: Duration(time.Minute)}.WithDefaults()
	if s.Every != Duration(time.Minute) || s.Heartbeat != Duration(24*time.Hour) || s.Copies.Keep == 0 {
		t.Errorf("%+v", s)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

func TestBackupSecretsAreRedacted(t *testing.T) {
	text, err := json.Marshal(sampleBackup())
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(Redact(doc)); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"c2VjcmV0", "YWdl"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%s is shown: %s", secret, text)
		}
	}
}

func FuzzParseRemoteURL(f *testing.F) {
	f.Fuzz(func(t *testing.T, s string) {
		kind, user, err := ParseRemoteURL(s)
		if err != nil {
			return
		}
		if strings.HasPrefix(s, "-") || strings.HasPrefix(user, "-") || !plainText(s) {
			t.Errorf("%q as %q passes", s, user)
		}
		if kind == RemotePath && user != "" {
			t.Errorf("%q: a path has user %q", s, user)
		}
	})
}
