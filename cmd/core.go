package cmd

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/core"
	"github.com/meshctl/meshctl/pkg/doctor"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func newCore() *cobra.Command {
	return group("core", "An exit on a member's own server", newCoreJoin(), newCoreRun())
}

// coreConfig is how a core runs.
type coreConfig struct {
	Dir           string        `key:"dir" help:"data folder: identity and state; 0700"`
	Listen        string        `key:"listen" help:"address that entries connect to"`
	Advertise     []string      `key:"advertise" help:"host:port under which entries reach it (default: the address that management sees, with the port of listen)"`
	MetricsListen string        `key:"metrics-listen" help:"health and metrics, on a private address; empty: none"`
	Egress        coreEgress    `key:"egress"`
	Connections   int           `key:"connections" help:"client connections in all; as many to destinations, and half as many flows of UDP"`
	DialTimeout   time.Duration `key:"dial-timeout" help:"time to resolve and reach a destination"`
	Drain         time.Duration `key:"drain" help:"how long open connections may go on once the core stops"`
	Log           logConfig     `key:"log"`
}

type coreEgress struct {
	Kind      string   `key:"kind" help:"proxy: what clients speak, on the cell's certificate; forward: every client goes to one address"`
	Forward   string   `key:"forward" help:"host:port for kind forward; whoever runs an entry is then trusted with access to it"`
	Allow     []string `key:"allow" help:"ranges that clients may reach although they are not on the public Internet"`
	DenyPorts []string `key:"deny-ports" help:"destination ports that clients may not reach"`
	Fallback  string   `key:"fallback" help:"what a request without credentials gets: a folder of static files, an http:// address, or a built-in page when empty"`
}

func newCoreConfig() *coreConfig {
	def := core.DefaultConfig()
	var ports []string
	for _, p := range def.Egress.DenyPorts {
		ports = append(ports, fmt.Sprint(p))
	}
	return &coreConfig{
		Dir:           "/var/lib/meshctl/core",
		Listen:        ":8444",
		MetricsListen: "127.0.0.1:9603",
		Egress:        coreEgress{Kind: def.Egress.Kind, DenyPorts: ports},
		Connections:   8192,
		DialTimeout:   def.Limits.Dial,
		Drain:         def.Drain,
		Log:           defaultLog(),
	}
}

func (c *coreConfig) logging() logConfig { return c.Log }

func (c *coreConfig) prepare() error {
	var errs []error
	add := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("configuration: "+format+": %w", append(args, mesh.ErrInvalid)...))
		}
	}
	add(filepath.IsAbs(c.Dir), "dir %q: want an absolute path", mesh.Quotable(c.Dir))
	add(isHostPort(c.Listen), "listen %q: want host:port or :port", mesh.Quotable(c.Listen))
	add(c.MetricsListen == "" || isHostPort(c.MetricsListen), "metrics-listen %q: want host:port", mesh.Quotable(c.MetricsListen))
	cfg, err := c.config()
	return errors.Join(append(errs, err, cfg.Validate())...)
}

// config turns texts into what the core takes.
func (c *coreConfig) config() (core.Config, error) {
	cfg := core.DefaultConfig()
	allow, err := parsePrefixes("egress.allow", c.Egress.Allow)
	ports, perr := parsePorts("egress.deny-ports", c.Egress.DenyPorts)
	cfg.Advertise = c.Advertise
	cfg.Egress = core.Egress{Kind: c.Egress.Kind, Forward: c.Egress.Forward, Allow: allow, DenyPorts: ports, Fallback: c.Egress.Fallback}
	cfg.Limits.Streams = c.Connections
	// Descriptors are for these: a client's connection comes in a relay session.
	cfg.Limits.Tunnels, cfg.Limits.Flows = max(c.Connections, 1), max(c.Connections/2, 1)
	cfg.Limits.Dial = c.DialTimeout
	cfg.Drain = c.Drain
	return cfg, errors.Join(err, perr)
}

func parsePorts(key string, in []string) ([]uint16, error) {
	var out []uint16
	var errs []error
	for _, s := range in {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil || n == 0 {
			errs = append(errs, fmt.Errorf("configuration: %s %q: want a port, 1 to 65535: %w", key, mesh.Quotable(s), mesh.ErrInvalid))
			continue
		}
		out = append(out, uint16(n))
	}
	return out, errors.Join(errs...)
}

func (c *coreConfig) checks() []doctor.Check {
	checks := []doctor.Check{
		doctor.Folder(c.Dir, 64<<20),
		doctor.Identity(identityDir(c.Dir)),
		doctor.Descriptors(2*uint64(max(c.Connections, 0)) + 512),
		doctor.Listener("relay", c.Listen, c.MetricsListen),
	}
	if c.MetricsListen != "" {
		checks = append(checks, doctor.Listener("metrics", c.MetricsListen, c.MetricsListen))
	}
	return append(checks, reachChecks(c.Dir)...)
}
