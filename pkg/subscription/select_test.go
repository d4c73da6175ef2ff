package subscription

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestFormatsLeaveOutWhatTheyCannotCarry(t *testing.T) {
	p := everything(t)
	for _, c := range []struct {
		format              Format
		in                  int
		protocol, grpc, own int // left out because of these
	}{
		{FormatPlain, 6, 3, 0, 4},
		{FormatClash, 12, 1, 0, 0},
		{FormatClashOld, 4, 7, 0, 2},
		{FormatSingBox, 12, 1, 0, 0},
		{FormatXray, 13, 0, 0, 0},
		{FormatV2Ray, 10, 0, 3, 0},
		{FormatPAC, 1, 11, 0, 1},
		{FormatCurl, 2, 11, 0, 0},
		{FormatHTML, 13, 0, 0, 0},
	} {
		in, left := Select(c.format, p)
		count := func(reason string) (n int) {
			for _, l := range left {
				if strings.HasPrefix(l.Reason, reason) {
					n++
				}
			}
			return n
		}
		if got := []int{len(in), count(leftProtocol), count(leftGRPC), count(leftCA)}; !slices.Equal(got, []int{c.in, c.protocol, c.grpc, c.own}) {
			t.Errorf("%s: got %v of %v", c.format, got, left)
		}
	}
	p.TrustsCA = true
	if in, _ := Select(FormatPAC, p); len(in) != 2 {
		t.Errorf("a browser that has the authority gets %d nodes", len(in))
	}
	if in, _ := Select(FormatPlain, p); len(in) != 6 {
		t.Errorf("links for who has the authority: %d nodes", len(in))
	}
}

func TestOnlyWhatCanBeDialledIsServed(t *testing.T) {
	for host, want := range map[string]bool{
		"entry.example.net": true, "xn--e1afmkfd.example": true, "localhost": true, "192.0.2.1": true, "2001:db8::1": true,
		"": false, "[2001:db8::1]": false, "fe80::1%eth0": false, "a b": false, "a#b": false, "a@b": false, "a/b": false, "a:443": false, "почта.example": false,
	} {
		p := plainNodes("a")
		p.Nodes[0].Host = host
		in, left := Select(FormatPlain, p)
		if got := len(in) == 1; got != want || got == (len(left) == 1) {
			t.Errorf("%q: got %v, %v", host, got, left)
		}
	}
}

// TestPrivateNamesStayOut: where the authority cannot be told, the names of the
// cell are not told either.
func TestPrivateNamesStayOut(t *testing.T) {
	for _, f := range []Format{FormatPlain, FormatClashOld, FormatPAC} {
		if b := render(t, f, everything(t)); strings.Contains(string(b.Data), "b.example.net") {
			t.Errorf("%s:\n%s", f, b.Data)
		}
	}
}

// TestWhoIsNotServedIsTold by a document that is valid, and leads nowhere (S-08).
func TestWhoIsNotServedIsTold(t *testing.T) {
	for standing, want := range map[mesh.Standing]string{
		mesh.StandingSuspended: noticeSuspended, mesh.StandingExpired: noticeExpired,
		mesh.StandingExhausted: noticeExhausted, mesh.StandingGone: noticeGone, "": noticeGone,
	} {
		p := everything(t)
		p.Standing = standing
		for _, r := range readers() {
			b := render(t, r.format, p)
			if strings.Contains(string(b.Data), "example.net:443") || strings.Contains(string(b.Data), testSecret.Reveal()) || len(b.Left) > 0 {
				t.Errorf("%s, %s:\n%s", standing, r.format, b.Data)
			}
			if got := r.names(t, b.Data); !slices.Equal(got, []string{want}) {
				t.Errorf("%s, %s: got %q", standing, r.format, got)
			}
		}
		if text := string(render(t, FormatPAC, p).Data); !strings.Contains(text, want) || !strings.Contains(text, `return "PROXY 127.0.0.1:1"`) {
			t.Errorf("%s, pac:\n%s", standing, text)
		}
	}
	for _, r := range readers() {
		if got := r.names(t, render(t, r.format, Profile{Standing: mesh.StandingOK}).Data); !slices.Equal(got, []string{noticeNone}) {
			t.Errorf("no nodes, %s: got %q", r.format, got)
		}
	}
}

func TestExplain(t *testing.T) {
	p := everything(t)
	p.Hidden = []Left{{"c", "c", "no certificate yet"}}
	e := Explain(Rules{}.Choose("Clash-verge/v2", "", ""), p)
	if e.Format != FormatClash || e.Rule != "built-in: clash" || len(e.In) != 12 || len(e.Left) != 2 || e.Fallback ||
		!slices.Equal(e.Cells, []string{"a", "b"}) || e.Left[1] != p.Hidden[0] || e.Notice != "" {
		t.Errorf("got %+v", e)
	}
	for i := range p.Nodes {
		p.Nodes[i].Guest = true
	}
	if e := Explain(Choice{Format: FormatPlain}, p); !e.Fallback || e.Notice != noticePrivate || !slices.Equal(e.Cells, []string{"a"}) {
		t.Errorf("as guest: got %+v", e)
	}
	p.Standing = mesh.StandingExpired
	if e := Explain(Choice{Format: FormatPlain}, p); len(e.In) != 0 || e.Notice != noticeExpired {
		t.Errorf("expired: got %+v", e)
	}
}

// TestSecretsAreNotPrinted by accident, with a profile in a log or an error.
func TestSecretsAreNotPrinted(t *testing.T) {
	n := node("a", "a", "192.0.2.1", mesh.DefaultOffers()[0], "")
	for _, text := range []string{sprint("%v", n), sprint("%+v", n), sprint("%#v", n), sprint("%s", n)} {
		if strings.Contains(text, testSecret.Reveal()) || strings.Contains(text, n.UUID.Reveal()) {
			t.Error(text)
		}
	}
}
