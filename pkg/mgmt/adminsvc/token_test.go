package adminsvc

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestTokenAloneSuffices(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	v := must(r.tokenCreate(r.as(mesh.AdminOperator), admin.TokenCreateRequest{Role: mesh.RoleCore, Name: "box", Member: "alice", Cell: "north"}))(t)
	join := must(mesh.ParseJoinToken(v.Token))(t)
	if !slices.Equal(join.Addresses, []string{"mgmt.example.net:8443"}) || join.RootHash != r.RootHash || join.ID != v.ID {
		t.Errorf("token %+v", join)
	}
	rec := must(r.Store.Tokens.Get(r.ctx(), v.ID))(t).Value
	if !rec.Matches(join.Secret) || rec.Member != m.ID || rec.Cell != c.ID || rec.By != "admin:test" {
		t.Errorf("record %+v", rec)
	}
	if life := rec.Expires.Sub(rec.Created); life != 24*time.Hour {
		t.Errorf("life %v, want 24h", life)
	}
	if l := must(r.tokenList(r.ctx(), admin.Page{}))(t); len(l.Items) != 1 || l.Items[0].State != mesh.TokenUnused {
		t.Errorf("list %+v", l)
	}
}

func TestBadTokensAreRefused(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	r.core("box", m.ID, c.ID)
	for _, c := range []struct {
		name string
		as   mesh.AdminRole
		req  admin.TokenCreateRequest
		kind error
		says string
	}{
		{"a server needs the root", "owner", admin.TokenCreateRequest{Role: mesh.RoleMgmt}, mesh.ErrInvalid, "root passphrase"},
		{"an unknown role", "owner", admin.TokenCreateRequest{Role: "exit"}, mesh.ErrInvalid, "role"},
		{"only owners invite", "operator", admin.TokenCreateRequest{Role: mesh.RoleAdmin, Grant: mesh.AdminAuditor}, mesh.ErrDenied, "owner"},
		{"a grant is needed", "owner", admin.TokenCreateRequest{Role: mesh.RoleAdmin}, mesh.ErrInvalid, "--grant"},
		{"an unknown grant", "owner", admin.TokenCreateRequest{Role: mesh.RoleAdmin, Grant: "root"}, mesh.ErrInvalid, "owner, operator or auditor"},
		{"a grant for a core", "owner", admin.TokenCreateRequest{Role: mesh.RoleCore, Member: "alice", Cell: "north", Grant: "owner"}, mesh.ErrInvalid, "grant"},
		{"a core without a cell", "owner", admin.TokenCreateRequest{Role: mesh.RoleCore, Member: "alice"}, mesh.ErrInvalid, "--cell"},
		{"an entry of a member", "owner", admin.TokenCreateRequest{Role: mesh.RoleEntry, Member: "alice"}, mesh.ErrInvalid, "cores"},
		{"a life too long", "owner", admin.TokenCreateRequest{Role: mesh.RoleEntry, Life: mesh.Duration(31 * 24 * time.Hour)}, mesh.ErrInvalid, "720h"},
		{"a life below zero", "owner", admin.TokenCreateRequest{Role: mesh.RoleEntry, Life: -1}, mesh.ErrInvalid, "life"},
		{"a bad name", "owner", admin.TokenCreateRequest{Role: mesh.RoleEntry, Name: "a\tb"}, mesh.ErrInvalid, "control"},
		{"a name that is taken", "owner", admin.TokenCreateRequest{Role: mesh.RoleCore, Name: "box", Member: "alice", Cell: "north"}, mesh.ErrExists, "box"},
		{"an unknown member", "owner", admin.TokenCreateRequest{Role: mesh.RoleCore, Member: "bob", Cell: "north"}, mesh.ErrNotFound, "bob"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.tokenCreate(r.as(c.as), c.req)
			refused(t, err, c.kind, c.says)
		})
	}
	if l := must(r.tokenList(r.ctx(), admin.Page{}))(t); len(l.Items) != 0 {
		t.Errorf("%d tokens were made all the same", len(l.Items))
	}
}

func TestUsedTokenPointsToWhatJoined(t *testing.T) {
	r := newRig(t)
	v := must(r.tokenCreate(r.ctx(), admin.TokenCreateRequest{Role: mesh.RoleAdmin, Grant: mesh.AdminAuditor}))(t)
	id := mesh.NewAdminID()
	r.write("use", func(tx *store.Tx) error {
		return store.Update(tx, r.Store.Tokens, v.ID, func(t *mesh.Token) error {
			t.Used = &mesh.TokenUse{Node: "admin/" + string(id), At: time.Now()}
			return nil
		})
	})
	_, err := r.tokenRevoke(r.ctx(), admin.Ref{Ref: string(v.ID)})
	refused(t, err, mesh.ErrConflict, "meshctl admin administrator revoke "+string(id))
}

func TestAdministratorsChange(t *testing.T) {
	r := newRig(t)
	a := mesh.Administrator{ID: mesh.NewAdminID(), Name: "bob", Role: mesh.AdminAuditor}
	r.write("join", func(tx *store.Tx) error { return store.Create(tx, r.Store.Admins, a.ID, a) })
	got := must(r.adminSet(r.ctx(), admin.AdminSetRequest{Ref: "bob", Name: new("Bob"), Role: new(mesh.AdminOwner)}))(t)
	if got.Name != "Bob" || got.Role != mesh.AdminOwner {
		t.Errorf("got %+v", got)
	}
	_, err := r.adminSet(r.ctx(), admin.AdminSetRequest{Ref: "Bob", Role: new(mesh.AdminRole("root"))})
	refused(t, err, mesh.ErrInvalid, "auditor")
}

func TestConfigMergesStrictly(t *testing.T) {
	r := newRig(t)
	set := func(patch string) (mesh.Config, error) {
		return r.configSet(r.ctx(), admin.ConfigSetRequest{Patch: []byte(patch)})
	}
	c := must(set(`{"certLife":{"node":"720h"},"entryAddresses":null,"allowedAddresses":["10.0.0.0/8"],"staleIfError":"1h"}`))(t)
	if time.Duration(c.CertLife.Node) != 720*time.Hour || c.CertLife.Admin != mesh.DefaultConfig().CertLife.Admin ||
		c.EntryAddresses != nil || len(c.AllowedAddresses) != 1 || time.Duration(c.StaleIfError) != time.Hour {
		t.Errorf("got %+v", c)
	}
	if stored := must(r.configGet(r.ctx(), admin.None{}))(t); stored.CertLife != c.CertLife {
		t.Errorf("stored %+v", stored)
	}
	for patch, says := range map[string]string{
		`{"entryAdresses":[]}`:                   "did you mean entryAddresses?",
		`{"EntryAddresses":[]}`:                  "did you mean entryAddresses?",
		`{"certLife":{"nodes":"1h"}}`:            "did you mean certLife.node?",
		`{"gossip":{}}`:                          "the settings there are alerts, allowedAddresses, bot, certLife, entryAddresses",
		`{"certLife":{"node":"1s"}}`:             "certLife.node",
		`{"certLife":{"node":"soon"}}`:           `certLife.node "soon": want a number with a unit`,
		`{"certLife":{"node":{"x":"5h"}}}`:       `certLife.node {"x":"5h"}: want a number with a unit`,
		`{"certLife":"5h"}`:                      `certLife "5h": want settings below it, such as admin`,
		`{"certLife":null}`:                      "certLife",
		`{"certLife":[1]}`:                       "certLife",
		`{"mgmtAddresses":[]}`:                   "no node could join",
		`{"mgmtAddresses":["host"]}`:             "host:port",
		`{"entryAddresses":[":443"]}`:            "host:port",
		`{"entryAddresses":["h:99999"]}`:         "host:port",
		`{"entryAddresses":["a.example:0"]}`:     "host:port",
		`{"entryAddresses":["a.example:https"]}`: "host:port",
		`{"entryAddresses":["a b:443"]}`:         "host:port",
		`{"entryAddresses":["a/b?c#.d:443"]}`:    "host:port",
		`{"entryAddresses":["[fe80::1%e]:443"]}`: "host:port",
		`{"entryAddresses":["пример.рф:443"]}`:   "xn--",
		`{"allowedAddresses":["10.0.0.0"]}`:      `allowedAddresses ["10.0.0.0"]: want ranges, such as 10.0.0.0/8`,
		`{"staleIfError":"-1h"}`:                 "staleIfError",
		`{"epoch":7}`:                            "not set by hand",
		`[]`:                                     "JSON object",
		`{} {}`:                                  "JSON object",
		`null`:                                   "JSON object",
		``:                                       "JSON object",
		`{"mgmtAddresses":"a.example.net:8443"}`: `mgmtAddresses "a.example.net:8443": want a list of texts`,
		`{"epoch":"7"}`:                          `epoch "7": want a whole number`,
	} {
		_, err := set(patch)
		refused(t, err, mesh.ErrInvalid, says)
	}
	if rec := r.audits(); rec[0].Action != "config.set" || len(rec) != 2 {
		t.Errorf("%d records, the newest %s; want founding and one change", len(rec), rec[0].Action)
	}
}

func TestStatusWarns(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	core := r.core("box", m.ID, c.ID)
	r.device("alice", "phone", "north")
	st := must(r.statusGet(r.ctx(), admin.None{}))(t)
	if st.Members != 1 || st.Devices != 1 || st.Cells != 1 || st.Routes != 1 || st.Cores["ready"] != 1 || st.HighlyAvailable {
		t.Errorf("got %+v", st)
	}
	r.write("lost", func(tx *store.Tx) error {
		err := store.Update(tx, r.Store.Cores, core.ID, func(c *mesh.Core) error {
			c.State, c.Reason = mesh.CoreLost, "no phone-home"
			return nil
		})
		return errors.Join(err, store.Update(tx, r.Store.Status, "core/"+string(core.ID), func(s *mesh.NodeStatus) error {
			s.Failure = "port in use"
			return nil
		}))
	})
	r.Now = func() time.Time { return time.Now().Add(199 * 24 * time.Hour) }
	st = must(r.statusGet(r.ctx(), admin.None{}))(t)
	for _, want := range []string{
		"not highly available: one management server; while it is down nothing can be changed and no node can join",
		"core box is lost: no phone-home",
		"core box does not run its configuration: port in use",
		"cell north has 1 device and no core that is ready",
		"no entry has joined: meshctl admin token create --role entry",
	} {
		if !slices.Contains(st.Warnings, want) {
			t.Errorf("no warning %q in %q", want, st.Warnings)
		}
	}
	if !slices.ContainsFunc(st.Warnings, func(w string) bool { return len(w) > 30 && w[:30] == "the certificate of core box en" }) {
		t.Errorf("no warning of the certificate in %q", st.Warnings)
	}
}
