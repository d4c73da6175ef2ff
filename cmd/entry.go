package cmd

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/doctor"
	"github.com/meshctl/meshctl/pkg/entry"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func newEntry() *cobra.Command {
	return group("entry", "The entrance that clients connect to", newEntryRun())
}

// entryConfig is how an entry runs.
type entryConfig struct {
	Dir           string        `key:"dir" help:"data folder: identity and state; 0700"`
	TokenFile     string        `key:"token-file" help:"file with a join token, or - for standard input; needed at the first start only"`
	Listen        string        `key:"listen" help:"address that clients connect to"`
	MetricsListen string        `key:"metrics-listen" help:"health and metrics, on a private address; empty: none"`
	Proxies       entryProxies  `key:"proxies"`
	Limits        entryLimits   `key:"limits"`
	HelloTimeout  time.Duration `key:"hello-timeout" help:"time from accept to a complete ClientHello"`
	LookupTimeout time.Duration `key:"lookup-timeout" help:"time for one question to one management server; another is asked before half of it has passed"`
	Drain         entryDrain    `key:"drain"`
	Kubernetes    entryPod      `key:"kubernetes"`
	Log           logConfig     `key:"log"`

	trusted []netip.Prefix
	pod     *control.Pod // nil: it is none
}

type entryProxies struct {
	Trusted  []string `key:"trusted" help:"ranges of balancers that send a PROXY protocol header, such as 10.0.0.0/8"`
	Required bool     `key:"required" help:"refuse a balancer that sends no PROXY protocol header"`
}

type entryLimits struct {
	Connections int `key:"connections" help:"client connections in all"`
	PerSource   int `key:"per-source" help:"client connections from one IPv4 address or IPv6 /64"`
	Hellos      int `key:"hellos" help:"connections that have not yet said where they want to go"`
}

type entryDrain struct {
	Wait  time.Duration `key:"wait" help:"time between not ready and the end of accepting, for a balancer to notice"`
	Limit time.Duration `key:"limit" help:"how long open connections may go on once it no longer accepts"`
}

func newEntryConfig() *entryConfig {
	return &entryConfig{
		Dir:           "/var/lib/meshctl/entry",
		Listen:        ":443",
		MetricsListen: "127.0.0.1:9602",
		Limits:        entryLimits{Connections: 8192, PerSource: 1024, Hellos: 4096},
		HelloTimeout:  5 * time.Second,
		LookupTimeout: 300 * time.Millisecond,
		Drain:         entryDrain{Limit: 10 * time.Minute},
		Kubernetes:    defaultEntryPod(),
		Log:           defaultLog(),
	}
}

func (c *entryConfig) logging() logConfig { return c.Log }

func (c *entryConfig) prepare() error {
	var errs []error
	add := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("configuration: "+format+": %w", append(args, mesh.ErrInvalid)...))
		}
	}
	add(filepath.IsAbs(c.Dir), "dir %q: want an absolute path", mesh.Quotable(c.Dir))
	add(isHostPort(c.Listen), "listen %q: want host:port or :port", mesh.Quotable(c.Listen))
	add(c.MetricsListen == "" || isHostPort(c.MetricsListen), "metrics-listen %q: want host:port", mesh.Quotable(c.MetricsListen))
	add(c.Limits.Connections > 0 && c.Limits.PerSource > 0 && c.Limits.Hellos > 0, "limits: want each to be more than 0")
	add(c.HelloTimeout > 0 && c.LookupTimeout > 0, "hello-timeout, lookup-timeout: want more than 0, since without them silent clients are held for ever")
	add(c.Drain.Wait >= 0 && c.Drain.Limit > 0, "drain: want wait of 0 or more and a limit of more than 0")
	ranges, err := parsePrefixes("proxies.trusted", c.Proxies.Trusted)
	c.trusted = ranges
	pod, podErr := c.Kubernetes.parse(c.TokenFile)
	c.pod = pod
	return errors.Join(append(errs, err, podErr)...)
}

func isHostPort(a string) bool {
	_, port, err := net.SplitHostPort(a)
	if err != nil {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

func parsePrefixes(key string, in []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	var errs []error
	for _, s := range in {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("configuration: %s %q: want a range such as 10.0.0.0/8: %w", key, mesh.Quotable(s), mesh.ErrInvalid))
			continue
		}
		out = append(out, p.Masked())
	}
	return out, errors.Join(errs...)
}

func (c *entryConfig) checks() []doctor.Check {
	checks := []doctor.Check{
		doctor.Folder(c.Dir, 64<<20),
		doctor.Identity(identityDir(c.Dir)),
		doctor.Descriptors(entry.FilesFor(c.Limits.Connections)),
		doctor.Listener("clients", c.Listen, c.MetricsListen),
	}
	if c.MetricsListen != "" {
		checks = append(checks, doctor.Listener("metrics", c.MetricsListen, c.MetricsListen))
	}
	return append(checks, reachChecks(c.Dir)...)
}
