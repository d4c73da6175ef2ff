package adminsvc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/subscription"
)

func (r *rig) rules() []string {
	r.t.Helper()
	var out []string
	for _, rule := range must(r.subRuleList(r.ctx(), admin.Page{}))(r.t).Items {
		if rule.Place > 0 {
			out = append(out, fmt.Sprintf("%d %s %s", rule.Place, rule.Match, rule.Format))
		}
	}
	return out
}

func TestRulesOfTheOperatorGoFirst(t *testing.T) {
	r := newRig(t)
	add := func(match, below, format string, place int) (admin.SubRule, error) {
		return r.subRuleAdd(r.ctx(), admin.SubRuleAddRequest{Rule: mesh.AgentRule{Match: match, Below: below, Format: format}, Place: place})
	}
	must(add("MyApp", "", "plain", 0))(t)
	if got := must(add("OtherApp", "2", "clash", 0))(t); got.Place != 2 {
		t.Errorf("added at %d", got.Place)
	}
	must(add("MyApp", "1.5", "base64", 1))(t)
	if got := strings.Join(r.rules(), ", "); got != "1 MyApp base64, 2 MyApp plain, 3 OtherApp clash" {
		t.Errorf("rules: %s", got)
	}
	all := must(r.subRuleList(r.ctx(), admin.Page{}))(t).Items
	if want := 3 + len(subscription.BuiltIn()); len(all) != want || all[len(all)-1].Place != 0 {
		t.Errorf("%d rules, want %d with the built-in ones", len(all), want)
	}
	for name, tt := range map[string]struct {
		err  func() error
		kind error
		says string
	}{
		"an unknown format":            {func() error { _, err := add("x", "", "surge", 0); return err }, mesh.ErrInvalid, "sing-box"},
		"a place beyond the end":       {func() error { _, err := add("x", "", "clash", 9); return err }, mesh.ErrInvalid, "1 to 4"},
		"a rule that is never reached": {func() error { _, err := add("MyApp", "9", "clash", 0); return err }, mesh.ErrConflict, "rule 2"},
		"no rule at that place":        {func() error { _, err := r.subRuleRemove(r.ctx(), admin.SubRuleRemoveRequest{Place: 4}); return err }, mesh.ErrNotFound, "built-in"},
		"another rule is there meanwhile": {func() error {
			_, err := r.subRuleRemove(r.ctx(), admin.SubRuleRemoveRequest{Place: 1, Match: "OtherApp"})
			return err
		}, mesh.ErrConflict, "MyApp"},
		"a rule in the configuration": {func() error {
			_, err := r.configSet(r.ctx(), admin.ConfigSetRequest{Patch: []byte(`{"subscription":{"agents":[{"match":"x","format":"surge"}]}}`)})
			return err
		}, mesh.ErrInvalid, "surge"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, tt.err(), tt.kind, tt.says) })
	}
	if got := must(r.subRuleRemove(r.ctx(), admin.SubRuleRemoveRequest{Place: 2, Match: "MyApp"}))(t); got.Format != "plain" {
		t.Errorf("removed %+v", got)
	}
	if got := strings.Join(r.rules(), ", "); got != "1 MyApp base64, 2 OtherApp clash" {
		t.Errorf("rules: %s", got)
	}
}

func TestStatusOfTheSubscriptionService(t *testing.T) {
	r := newRig(t)
	if st := must(r.subStatusGet(r.ctx(), admin.None{}))(t); st.Name != "" || len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], "off") {
		t.Errorf("without a name: %+v", st)
	}
	r.configure(`{"subscription":{"name":"sub.example.net","updateInterval":"6h"}}`)
	r.member("alice")
	r.cell("north", "a.example.net")
	for _, name := range []string{"phone", "tablet", "old"} {
		r.device("alice", name, "north")
	}
	must(r.deviceSubscribe(r.ctx(), admin.DeviceSubscribeRequest{Ref: "phone"}))(t)
	must(r.deviceRevoke(r.ctx(), admin.RevokeRequest{Ref: "old"}))(t)
	st := must(r.subStatusGet(r.ctx(), admin.None{}))(t)
	if st.URL != "https://sub.example.net/s/" || st.Certificate != mesh.SubscriptionFiles || st.Interval != mesh.Duration(6*time.Hour) || st.Linked != 1 || st.Unlinked != 1 {
		t.Errorf("got %+v", st)
	}
}

func TestStatusSaysWhyClientsGetNoAnswer(t *testing.T) {
	r := newRig(t)
	r.configure(`{"subscription":{"name":"sub.example.net"}}`)
	r.write("route", func(tx *store.Tx) error {
		return store.Create(tx, r.Store.Routes, "sub.example.net", mesh.Route{Name: "sub.example.net", Hops: []mesh.Hop{{Kind: mesh.HopMgmt, ID: string(r.Server)}}})
	})
	now := time.Now()
	for _, tt := range []struct {
		name  string
		patch string
		cert  *tls.Certificate
		says  string // "": nothing
	}{
		{"no files", `{}`, nil, "subscription.cert-file"},
		{"no order yet", `{"subscription":{"certificate":"acme"}}`, nil, "ordered"},
		{"all is well", `{}`, certFor(t, "sub.example.net", now.Add(-time.Hour), now.Add(90*24*time.Hour)), ""},
		{"for another name", `{}`, certFor(t, "www.example.net", now.Add(-time.Hour), now.Add(90*24*time.Hour)), "not for sub.example.net"},
		{"ended", `{}`, certFor(t, "sub.example.net", now.Add(-2*time.Hour), now.Add(-time.Hour)), "has ended"},
		{"ends soon", `{}`, certFor(t, "sub.example.net", now.Add(-80*24*time.Hour), now.Add(24*time.Hour)), "ends at"},
		{"ends soon by its kind only", `{}`, certFor(t, "sub.example.net", now.Add(-time.Hour), now.Add(2*time.Hour)), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.configure(tt.patch)
			r.SubCertificate = func() *tls.Certificate { return tt.cert }
			st := must(r.subStatusGet(r.ctx(), admin.None{}))(t)
			if all := strings.Join(st.Warnings, "\n"); tt.says == "" && all != "" || !strings.Contains(all, tt.says) {
				t.Errorf("warnings %q, want %q", all, tt.says)
			}
			if (tt.cert == nil) != st.CertEnds.IsZero() {
				t.Errorf("ends at %v", st.CertEnds)
			}
			whole := strings.Join(must(r.statusGet(r.ctx(), admin.None{}))(t).Warnings, "\n")
			if strings.Contains(whole, "subscription: ") != (tt.says != "" && st.Certificate == mesh.SubscriptionACME) {
				t.Errorf("the whole mesh warns of %q", whole)
			}
		})
	}
}

func certFor(t *testing.T, name string, from, until time.Time) *tls.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	leaf := x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: from, NotAfter: until}
	return &tls.Certificate{Certificate: [][]byte{must(x509.CreateCertificate(rand.Reader, &leaf, &leaf, key.Public(), key))(t)}, PrivateKey: key}
}

func TestServiceNameIsClearOfCells(t *testing.T) {
	r := newRig(t)
	r.cell("north", "a.example.net")
	set := func(name string) error {
		_, err := r.configSet(r.ctx(), admin.ConfigSetRequest{Patch: fmt.Appendf(nil, `{"subscription":{"name":%q}}`, name)})
		return err
	}
	for _, name := range []string{"a.example.net", "sub.a.example.net", "example.net"} {
		refused(t, set(name), mesh.ErrExists, "the suffix of a cell")
	}
	if err := set("sub.example.net"); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"sub.example.net", "x.sub.example.net", "example.net"} {
		_, err := r.cellAdd(r.ctx(), admin.CellAddRequest{Name: "x", Suffix: suffix})
		refused(t, err, mesh.ErrExists, "")
	}
	refused(t, set("Sub.example.net"), mesh.ErrInvalid, "lower case")
	_, err := r.configSet(r.ctx(), admin.ConfigSetRequest{Patch: []byte(`{"subscription":{"title":5}}`)})
	refused(t, err, mesh.ErrInvalid, "subscription.title 5: want a text")
	_, err = r.configSet(r.ctx(), admin.ConfigSetRequest{Patch: []byte(`{"subscription":{"agents":"x"}}`)})
	refused(t, err, mesh.ErrInvalid, "a list of rules")
	_, err = r.configSet(r.ctx(), admin.ConfigSetRequest{Patch: []byte(`{"subscription":{"titel":"x"}}`)})
	refused(t, err, mesh.ErrInvalid, "did you mean subscription.title")
}

func TestExplainNamesRuleCellAndCores(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	r.core("box", m.ID, c.ID)
	d := r.device("alice", "phone", "north")
	_, err := r.subExplain(r.ctx(), admin.SubExplainRequest{Ref: "phone"})
	refused(t, err, mesh.ErrUnavailable, "no subscription service")

	var asked []string
	r.Explain = func(id mesh.DeviceID, userAgent, accept, format string) (subscription.Explanation, error) {
		asked = []string{string(id), userAgent, accept, format}
		p := subscription.Profile{Standing: mesh.StandingOK, Nodes: []subscription.Node{{
			Name: "north VLESS", Cell: "north", Host: "2001:db8::1", Port: 443, ServerName: d.ServerNames[0], Password: "hunter2-secret",
			Offer: mesh.Offer{Protocol: mesh.ProtocolVLESS, Transport: mesh.TransportTCP},
		}}, Hidden: []subscription.Left{{Name: "south", Cell: "south", Reason: "the cell is compromised"}}}
		return subscription.Explain(subscription.Rules{}.Choose(userAgent, accept, format), p), nil
	}
	got := must(r.subExplain(r.ctx(), admin.SubExplainRequest{Ref: "alice/phone", UserAgent: "clash.meta/v1.19", Accept: "*/*"}))(t)
	if len(asked) != 4 || asked[0] != string(d.ID) || asked[1] != "clash.meta/v1.19" {
		t.Errorf("asked %v", asked)
	}
	if got.Format != "clash" || got.Rule != "built-in: clash" || got.Standing != mesh.StandingOK || got.MemberName != "alice" || !got.Linked.IsZero() {
		t.Errorf("got %+v", got)
	}
	if len(got.Cells) != 1 || got.Cells[0].Name != "north" || len(got.Cells[0].Cores) != 1 || got.Cells[0].Cores[0] != "box" || got.Cells[0].State != mesh.CellActive {
		t.Errorf("cells %+v", got.Cells)
	}
	if len(got.Nodes) != 1 || got.Nodes[0].Address != "[2001:db8::1]:443" || len(got.Left) != 1 {
		t.Errorf("nodes %+v, left %+v", got.Nodes, got.Left)
	}
	if text, err := json.Marshal(got); err != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("a secret is shown (%v): %s", err, text)
	}
}
