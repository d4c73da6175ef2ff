package subscription

import (
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// TestClashFollowsItsDocumentation checks what mihomo demands of a
// configuration before it loads it.
func TestClashFollowsItsDocumentation(t *testing.T) {
	p := everything(t)
	for _, f := range []Format{FormatClash, FormatClashOld} {
		for _, standing := range []mesh.Standing{mesh.StandingOK, mesh.StandingExpired} {
			p.Standing = standing
			checkClash(t, f, readClash(t, render(t, f, p).Data))
		}
	}
}

func checkClash(t *testing.T, f Format, c clashDocument) {
	t.Helper()
	known := []string{"DIRECT"}
	for _, p := range c.Proxies {
		if slices.Contains(known, p.Name) || p.Server == "" || p.Port < 1 || p.Port > 65535 {
			t.Errorf("%s: %+v", f, p)
		}
		known = append(known, p.Name)
		switch p.Type {
		case "vless":
			if p.UUID == "" || p.ServerName == "" || !p.TLS || !p.UDP || f == FormatClashOld {
				t.Errorf("%s: %+v", f, p)
			}
		case "trojan":
			if p.Password == "" || p.SNI == "" || !p.UDP {
				t.Errorf("%s: %+v", f, p)
			}
		case "http":
			if p.Server != nowhereHost && (p.Username == "" || p.Password == "" || p.SNI == "" || !p.TLS) {
				t.Errorf("%s: %+v", f, p)
			}
		default:
			t.Errorf("%s: type %q", f, p.Type)
		}
		if (p.Network == "ws") != (p.WS.Path != "" && p.WS.Headers["Host"] != "") || (p.Network == "grpc") != (p.GRPC.Service != "") {
			t.Errorf("%s: transport of %+v", f, p)
		}
	}
	if len(c.Proxies) == 0 || len(c.Groups) != 2 {
		t.Fatalf("%s: %d proxies, %d groups", f, len(c.Proxies), len(c.Groups))
	}
	for _, g := range c.Groups {
		known = append(known, g.Name)
	}
	for _, g := range c.Groups {
		for _, name := range g.Proxies {
			if !slices.Contains(known, name) || name == g.Name {
				t.Errorf("%s: group %s names %q", f, g.Name, name)
			}
		}
	}
	if g := c.Groups[1]; g.Type != "fallback" || g.URL == "" || g.Interval == 0 {
		t.Errorf("%s: %+v", f, g)
	}
	for _, r := range c.Rules {
		target := slices.DeleteFunc(strings.Split(r, ","), func(s string) bool { return s == "no-resolve" })
		if !slices.Contains(known, target[len(target)-1]) {
			t.Errorf("%s: rule %q", f, r)
		}
	}
	if last := c.Rules[len(c.Rules)-1]; last != "MATCH,"+groupProxy {
		t.Errorf("%s: the last rule is %q", f, last)
	}
	for _, ca := range c.TLS.Certificates {
		if block, rest := pem.Decode([]byte(ca)); block == nil || len(rest) > 0 {
			t.Errorf("%s: authority %q", f, ca)
		}
	}
}

// TestClashLeavesNothingToGuess: no reader may take a name for something else
// than text, whichever version of YAML it follows.
func TestClashLeavesNothingToGuess(t *testing.T) {
	text := string(render(t, FormatClash, plainNodes("yes", "1e3", "0x10", "12:30:45", "~", "2026-11-30")).Data)
	for _, want := range []string{`name: "yes"`, `name: "1e3"`, `name: "0x10"`, `name: "12:30:45"`, `name: "~"`, `name: "2026-11-30"`, `- "yes"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
}
