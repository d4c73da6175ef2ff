//go:build clients

package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/subscription"
)

// singBoxes are releases that are in use beside the newest: of each, what its
// User-Agent leads to must be clean.
var singBoxes = []string{"1.10.7", "1.11.15", "1.12.12", "1.13.0"}

// TestProgramsTakeTheirDocuments has each program, and older releases of
// sing-box, check what is served to its User-Agent: with every offer, through
// entries of every kind of address, with names that are awkward, and for who is
// not served (S-01, S-05, S-08).
func TestProgramsTakeTheirDocuments(t *testing.T) {
	check := func(path string, args ...string) func(string) *exec.Cmd {
		return func(file string) *exec.Cmd { return exec.CommandContext(t.Context(), path, append(args, file)...) }
	}
	for _, v := range append(singBoxes, singboxVersion) {
		path := programs["sing-box"]
		if v != singboxVersion {
			var err error
			s := source{module: sources["sing-box"].module, version: "v" + v, built: "sing-box", tags: "with_utls"}
			if path, err = s.find(t.Context(), "sing-box"); err != nil {
				t.Fatal(err)
			}
		}
		for _, agent := range []string{"SFA/" + v + " (1; sing-box " + v + "; language en_US)", "sing-box/" + v, "HiddifyNext/2.5.7 (android) like ClashMeta v2ray sing-box"} {
			takes(t, agent, check(path, "check", "-c"))
		}
	}
	takes(t, "Xray/"+xrayVersion, check(programs["xray"], "run", "-test", "-c"))
	takes(t, "v2ray/4.34.0", check(programs["v2ray"], "-test", "-config"))
	takesList(t, check(programs["xray"], "run", "-test", "-c"))
}

func takes(t *testing.T, agent string, check func(file string) *exec.Cmd) {
	t.Helper()
	format := subscription.Rules{}.Choose(agent, "", "").Format
	for _, p := range awkwardProfiles(t) {
		b, err := subscription.Render(format, p)
		if err != nil {
			t.Fatal(err)
		}
		checked(t, agent+", "+string(format), b.Data, check)
	}
}

// takesList is for apps that hold a list of configurations.
func takesList(t *testing.T, check func(file string) *exec.Cmd) {
	t.Helper()
	for _, p := range awkwardProfiles(t) {
		b, err := subscription.Render(subscription.FormatXrayList, p)
		if err != nil {
			t.Fatal(err)
		}
		var all []json.RawMessage
		if err := json.Unmarshal(b.Data, &all); err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			checked(t, "one of a list", one, check)
		}
	}
}

func checked(t *testing.T, what string, document []byte, check func(file string) *exec.Cmd) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, document, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := check(file).CombinedOutput()
	// A release that is served what it means to drop says so before it does.
	if err != nil || strings.Contains(string(out), "ERROR") {
		t.Errorf("%s: %v\n%s\n%s", what, err, out, document)
	}
}

func awkwardProfiles(t *testing.T) []subscription.Profile {
	t.Helper()
	ca, err := os.ReadFile(filepath.Join("..", "..", "pkg", "subscription", "testdata", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	const device, secret = mesh.DeviceID("device-aaaaaaaaaaaaaaaa"), mesh.Secret("a secret, 'of \"no\" use' #%")
	names := []string{"Иван Петров", "🇩🇪 DE #1", "50%", "a: b", "two\nlines", "twin", "twin", "Proxy"}
	p := subscription.Profile{Title: "a: b\n- c", Standing: mesh.StandingOK}
	for i, o := range append(mesh.Offers(), mesh.Offers()...) {
		n := subscription.Node{
			Name: names[i%len(names)], Host: []string{"entry.example.net", "192.0.2.1", "2001:db8::1"}[i%3], Port: 443,
			ServerName: "k3xyz.b.example.net", Offer: o, Path: "/p", Service: "s", User: string(device), UUID: secret.UserID(device), Password: secret,
		}
		if i%2 == 0 {
			n.CA = string(ca)
		}
		p.Nodes = append(p.Nodes, n)
	}
	expired, none := p, p
	expired.Standing, none.Nodes = mesh.StandingExpired, nil
	return []subscription.Profile{p, expired, none}
}
