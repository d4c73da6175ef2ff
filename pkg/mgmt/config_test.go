package mgmt

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestTheDefaultsNeedANameAndAnAddress(t *testing.T) {
	c := DefaultConfig()
	err := c.Validate()
	for _, part := range []string{"name", "addresses: want"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("without more: %v, want %q", err, part)
		}
	}
	c.Name, c.MeshAddresses = "alpha", []string{"mgmt.example.net:8443"}
	if err := c.Validate(); err != nil {
		t.Errorf("with both: %v", err)
	}
	if got := c.Socket(); got != "/var/lib/meshctl/mgmt/mgmt.sock" {
		t.Errorf("socket at %s", got)
	}
}

func TestEveryFaultOfAConfigurationIsNamedAtOnce(t *testing.T) {
	faults := map[string]func(*Config){
		"dir":                        func(c *Config) { c.Dir = "data" },
		"name":                       func(c *Config) { c.Name = "mgmt-aaaaaaaaaaaaaaaa" },
		"bootstrap-expect 2":         func(c *Config) { c.BootstrapExpect, c.Peers = 2, []string{"b"} },
		"socket":                     func(c *Config) { c.SocketPath = "/" + strings.Repeat("x", 200) },
		"listen":                     func(c *Config) { c.MeshListen = "8443" },
		"addresses \"nowhere\"":      func(c *Config) { c.MeshAddresses = []string{"nowhere"} },
		"admin-listen":               func(c *Config) { c.AdminListen = ":8445" },
		"gateway-listen":             func(c *Config) { c.GatewayListen = "0.0.0.0:8446" },
		"metrics-listen":             func(c *Config) { c.MetricsListen = "127.0.0.1" },
		"etcd.client-listen":         func(c *Config) { c.Etcd.ClientListen = "10.0.0.1:2379" },
		"etcd.peer-listen":           func(c *Config) { c.Etcd.PeerListen = "0.0.0.0:2380" },
		"etcd.quota":                 func(c *Config) { c.Etcd.Quota = 1 },
		"etcd.heartbeat":             func(c *Config) { c.Etcd.Heartbeat = 0 },
		"etcd.election":              func(c *Config) { c.Etcd.Election = time.Minute },
		"etcd.cert-life":             func(c *Config) { c.Etcd.CertLife = time.Second },
		"founding.allowed-addresses": func(c *Config) { c.Founding.AllowedAddresses = []string{"10.0.0.0"} },
		"founding.entry-addresses":   func(c *Config) { c.Founding.EntryAddresses = []string{"x"} },
		"certLife.node":              func(c *Config) { c.Founding.NodeCertLife = time.Second },
		"renewGrace":                 func(c *Config) { c.Founding.RenewGrace = -1 },
		"rates.connections 0":        func(c *Config) { c.Rates.Connections = 0 },
		"bot.api":                    func(c *Config) { c.Bot.APIs = []string{"ftp://api.example"} },
		"rates.token-failures":       func(c *Config) { c.Rates.TokenFailures = -1 },
	}
	all := testConfig("/data")
	for part, spoil := range faults {
		c := testConfig("/data")
		spoil(&c)
		if err := c.Validate(); !errors.Is(err, mesh.ErrInvalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", part, err)
		}
		spoil(&all)
	}
	text := all.Validate().Error()
	for part := range faults {
		if !strings.Contains(text, part) {
			t.Errorf("with all faults at once %q is not named", part)
		}
	}
	lines := strings.Split(text, "\n")
	if again := strings.Split(all.Validate().Error(), "\n"); !slices.Equal(lines, again) {
		t.Error("the order of faults is not always the same")
	}
}

func TestAFaultyURLIsNamedWithoutItsPassword(t *testing.T) {
	c := testConfig("/data")
	c.Bot.APIs = []string{"https://user:s3cret@api.example"}
	if err := c.Validate(); !errors.Is(err, mesh.ErrInvalid) || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "@api.example") {
		t.Errorf("%v", err)
	}
}

func TestTheFirstConfigurationOfAMeshIsWhatFoundingSays(t *testing.T) {
	c := testConfig("/data")
	c.Founding.RenewGrace, c.Founding.EntryAddresses = time.Hour, []string{"entry.example.net:443"}
	got := c.Founding.config([]string{"mgmt.example.net:8443"})
	if err := got.Validate(); err != nil {
		t.Fatal(err)
	}
	if got.RenewGrace != mesh.Duration(time.Hour) || got.MgmtAddresses[0] != "mgmt.example.net:8443" ||
		got.EntryAddresses[0] != "entry.example.net:443" || got.AllowedAddresses[0].String() != "127.0.0.0/8" {
		t.Errorf("got %+v", got)
	}
}
