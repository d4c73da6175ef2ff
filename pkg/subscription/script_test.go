package subscription

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func sprint(format string, v any) string { return fmt.Sprintf(format, v) }

var http443 = mesh.Offer{Protocol: mesh.ProtocolHTTP, Transport: mesh.TransportTCP}

// TestScriptsRunNothingButCurl runs them in a shell in which curl tells its
// arguments, whatever the texts in them are.
func TestScriptsRunNothingButCurl(t *testing.T) {
	for _, name := range awkwardNames() {
		p := Profile{Title: name, Standing: mesh.StandingOK, Nodes: []Node{node(name, "b", "2001:db8::1", http443, testCA(t))}}
		p.Nodes[0].Password = mesh.Secret(strings.ReplaceAll(name, "\x00", ""))
		script := "curl() { printf '%s\\0' \"$@\"; cat \"$ca\"; }\n" + string(render(t, FormatCurl, p).Data)
		cmd := exec.CommandContext(t.Context(), "sh", "-s", "--", "https://example.com/", "-v")
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v\n%s", name, err, script)
		}
		args := strings.Split(string(out), "\x00")
		args[5] = "the file" // of a random name
		want := []string{
			"--proxy", "https://k3xyz.b.example.net:443",
			"--resolve", "k3xyz.b.example.net:443:[2001:db8::1]",
			"--proxy-cacert", "the file",
			"--proxy-user", "device-aaaaaaaaaaaaaaaa:" + name,
			"https://example.com/", "-v", testCA(t),
		}
		want[7] = strings.ReplaceAll(want[7], "\x00", "")
		if !slices.Equal(args, want) {
			t.Errorf("%q: got %q, want %q", name, args, want)
		}
	}
}

func TestTheScriptOfWhoIsNotServedFails(t *testing.T) {
	p := everything(t)
	p.Standing = mesh.StandingExpired
	cmd := exec.CommandContext(t.Context(), "sh")
	cmd.Stdin = strings.NewReader(string(render(t, FormatCurl, p).Data))
	out, err := cmd.CombinedOutput()
	if err == nil || strings.TrimSpace(string(out)) != noticeExpired {
		t.Errorf("got %q, %v", out, err)
	}
}

// TestTextsOfPACStayComments: the function is the same whatever the texts are.
func TestTextsOfPACStayComments(t *testing.T) {
	// What JavaScript takes for the end of a line (ECMA-262, 12.3).
	line := regexp.MustCompile("\r\n|[\n\r\u2028\u2029]")
	code := func(b Body) string {
		return strings.Join(slices.DeleteFunc(line.Split(string(b.Data), -1), func(s string) bool { return strings.HasPrefix(s, "//") }), "\n")
	}
	n := node("n", "a", "192.0.2.1", http443, "")
	want := code(render(t, FormatPAC, Profile{Standing: mesh.StandingOK, Nodes: []Node{n}}))
	for _, name := range awkwardNames() {
		n.Name, n.Cell = name, name
		if got := code(render(t, FormatPAC, Profile{Title: name, Standing: mesh.StandingOK, Nodes: []Node{n, n}})); got != want {
			t.Errorf("%q: got\n%s", name, got)
		}
	}
	if !strings.Contains(want, `return "HTTPS k3xyz.a.example.net:443";`) {
		t.Errorf("got\n%s", want)
	}
}
