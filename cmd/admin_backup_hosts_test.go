package cmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	keyA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAsvEC8SSUmPBnJhcHkxoexyGCCA25KvgKGz+/lwf54E"
	keyB = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti"
)

func TestSSHHostsAsKnownHostsWritesThem(t *testing.T) {
	for in, want := range map[string]string{
		"git@Git.Example.net:ops/mesh.git":       "git.example.net",
		"git.example.net:mesh.git":               "git.example.net",
		"ssh://git@git.example.net/mesh.git":     "git.example.net",
		"ssh://git@git.example.net:22/mesh.git":  "git.example.net",
		"ssh://git@git.example.net:222/mesh.git": "[git.example.net]:222",
		"ssh://git@[2001:db8::1]/mesh.git":       "2001:db8::1",
		"ssh://git@[2001:db8::1]:222/mesh.git":   "[2001:db8::1]:222",
	} {
		if got := sshHost(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestKeysOfAHostAreFoundInKnownHosts(t *testing.T) {
	const host = "[git.example.net]:222"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"plain":                    {host + " " + keyA, []string{host + " " + keyA}},
		"among others":             {"a.example.net," + host + " " + keyA + " a comment", []string{host + " " + keyA}},
		"hashed":                   {knownhosts.HashHostname(host) + " " + keyA, []string{host + " " + keyA}},
		"two keys":                 {host + " " + keyA + "\n" + host + " " + keyB, []string{host + " " + keyA, host + " " + keyB}},
		"of a certificate's maker": {"@cert-authority " + host + " " + keyA, []string{"@cert-authority " + host + " " + keyA}},
		"of another port":          {"git.example.net " + keyA, nil},
		"of another host, hashed":  {knownhosts.HashHostname("other") + " " + keyA, nil},
		"left out":                 {host + ",!" + host + " " + keyA, nil},
		"not readable":             {host + " ssh-ed25519 AAAA\n# " + host + " " + keyA, nil},
	} {
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, []byte(c.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := hostKeys("ssh://git@git.example.net:222/x", file, nil)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
		if c.want == nil && !strings.Contains(mesh.Hint(err), "ssh-keyscan -p 222 git.example.net") {
			t.Errorf("%s: %v, hint %q", name, err, mesh.Hint(err))
		}
	}
	if !matchesHost([]string{"*.example.net"}, "git.example.net") || matchesHost([]string{"*.example.net", "!git.*"}, "git.example.net") {
		t.Error("patterns")
	}
}

func TestNamesStandBesideIds(t *testing.T) {
	names := map[string]string{"member/member-aaaaaaaaaaaaaaaa": "Ada", "admin/admin-bbbbbbbbbbbbbbbb": "Eve"}
	got := withNames("member.set member/member-aaaaaaaaaaaaaaaa core/core-cccccccccccccccc by admin:admin-bbbbbbbbbbbbbbbb", names)
	if want := `member.set member/member-aaaaaaaaaaaaaaaa "Ada" core/core-cccccccccccccccc by admin:admin-bbbbbbbbbbbbbbbb "Eve"`; got != want {
		t.Errorf("got %s", got)
	}
}

func TestMessagesLoseWhatRepeats(t *testing.T) {
	trailers := map[string]string{"Meshctl-Epoch": "1.3"}
	for in, want := range map[string]string{
		"member.set, device.add\n\nmember.set member/x by y\ndevice.add device/z by y\n\nmembers: 1 changed\n\nMeshctl-Epoch: 1.3\n": "member.set member/x by y\ndevice.add device/z by y\nmembers: 1 changed",
		"Backup of the whole state\n\nmesh.found config/mesh by x\n\nMeshctl-Epoch: 1.3\n":                                           "Backup of the whole state\nmesh.found config/mesh by x",
		"Changes that follow from earlier ones\n\nMeshctl-Epoch: 1.3\n":                                                              "Changes that follow from earlier ones",
	} {
		if got := body(repo.Commit{Message: in, Trailers: trailers}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestARepositoryThatWasNotReadHasANextStep(t *testing.T) {
	var here, restore backupSource
	verify, plain := &cobra.Command{}, &cobra.Command{}
	here.login.flags(verify, "of yours")
	plain.Flags().String("git-token-file", "", "")
	for _, c := range []struct {
		got, want string
	}{
		{here.unreadHint(verify, repo.ReasonAuth), "or --token-file FILE"},
		{restore.unreadHint(plain, repo.ReasonAuth), "or --git-token-file FILE"},
		{here.unreadHint(verify, repo.ReasonTLS), "SSL_CERT_FILE"},
		{here.unreadHint(verify, repo.ReasonMissing), "recovery kit"},
		{here.unreadHint(verify, repo.ReasonOther), "recovery kit"},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
