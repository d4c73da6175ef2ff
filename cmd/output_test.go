package cmd

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestListsInEachForm(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	list := admin.List[admin.MemberView]{Items: []admin.MemberView{
		{Member: mesh.Member{ID: "member-b", Name: "Zoë", State: "active", Created: now.Add(-time.Hour)}, Devices: 2},
		{Member: mesh.Member{ID: "member-a", Name: "a\x1b[31m\u202eb", State: "suspended", Created: now}},
	}}
	for format, want := range map[outputFormat]string{
		"": "NAME      STATE      DEVICES  CORES  AGE  ID\n" +
			"Zoë       active     2        0      60m  member-b\n" +
			"a�[31m�b  suspended  0        0      0s   member-a\n",
		"name": "member-b\nmember-a\n",
		"yaml": "items:\n- cores: 0\n  created: \"2026-11-30T11:00:00Z\"\n  devices: 2\n  id: member-b\n  name: Zoë\n  state: active\n" +
			"- cores: 0\n  created: \"2026-11-30T12:00:00Z\"\n  devices: 0\n  id: member-a\n  name: \"a\\e[31m\u202eb\"\n  state: suspended\n",
	} {
		var b bytes.Buffer
		if err := printList(&b, format, memberNoun(), list, now); err != nil || b.String() != want {
			t.Errorf("%q: %v\n%s\nwant\n%s", format, err, b.String(), want)
		}
	}
}

func TestEmptyLists(t *testing.T) {
	for format, want := range map[outputFormat]string{
		"":     "no members; add one with `meshctl admin member add NAME`\n",
		"json": "{\n  \"items\": []\n}\n",
		"yaml": "items: []\n",
		"name": "",
	} {
		var b bytes.Buffer
		if err := printList(&b, format, memberNoun(), admin.List[admin.MemberView]{}, time.Now()); err != nil || b.String() != want {
			t.Errorf("%q: %v, %q; want %q", format, err, b.String(), want)
		}
	}
	var b bytes.Buffer
	if err := printList(&b, "", eventNoun(), admin.List[mesh.Event]{}, time.Now()); err != nil || b.String() != "no events\n" {
		t.Errorf("%v, %q", err, b.String())
	}
}

func TestCurlLine(t *testing.T) {
	link := admin.DeviceLink{ServerName: "abc.a.example.net", User: "device-x", Secret: "s3", Entries: []string{"[2001:db8::1]:8443"}}
	want := "curl --proxy https://abc.a.example.net:8443 --resolve abc.a.example.net:8443:[2001:db8::1] --proxy-cacert 'my ca.pem' --proxy-user device-x:s3 https://example.com/"
	if got := curlLine(link, "my ca.pem"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	link.Entries = []string{"entry.example.net:443"}
	want = "curl --proxy https://abc.a.example.net:443 --proxy-user device-x:s3 https://example.com/"
	if got := curlLine(link, ""); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := shellWord("it's"); got != `'it'\''s'` {
		t.Errorf("quoted as %s", got)
	}
}

// The command that a token is printed with does not have it among its
// arguments, where others see it.
func TestTokenIsNotPrintedAsAnArgument(t *testing.T) {
	for role, want := range map[mesh.Role]string{
		mesh.RoleCore:  "  meshctl core join --token-file -\n",
		mesh.RoleEntry: "  meshctl entry run --token-file -\n",
		mesh.RoleAdmin: "  meshctl admin login --token-file -\n",
	} {
		var b bytes.Buffer
		s := &adminSession{cmd: &cobra.Command{}, now: time.Now()}
		s.cmd.SetOut(&b)
		v := admin.TokenCreated{Token: "meshctl1.secret"}
		v.Role = role
		if err := printToken(s, v); err != nil {
			t.Fatal(err)
		}
		if out := b.String(); !strings.HasSuffix(out, want) || !strings.Contains(out, "\n\nmeshctl1.secret\n\n") {
			t.Errorf("%s: %s", role, out)
		}
	}
}

// What comes from elsewhere must not steer the terminal, in errors neither.
func TestErrorsDoNotSteerTheTerminal(t *testing.T) {
	var stderr bytes.Buffer
	err := mesh.WithHint(fmt.Errorf("admin: core \x1b]0;owned\x07 is gone: %w", mesh.ErrNotFound), "see \x1b[2J\u202e")
	if code := report(&stderr, err); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	if out := stderr.String(); strings.ContainsAny(out, "\x1b\x07\u202e") || strings.Count(out, "\n") != 2 {
		t.Errorf("printed %q", out)
	}
}
