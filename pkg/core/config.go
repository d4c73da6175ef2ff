package core

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Kinds of egress.
const (
	EgressProxy   = "proxy"
	EgressForward = "forward"
)

// Config is the core owner's part of a core's settings; the rest comes from
// management. DefaultConfig fills what zero does not mean.
type Config struct {
	// Advertise are host:port under which the relay answers; empty: the
	// address management observes, with the listener's port.
	Advertise []string
	Egress    Egress
	Limits    Limits
	// Drain is how long open connections may go on once the core stops.
	Drain time.Duration
}

// Egress says how traffic leaves.
type Egress struct {
	Kind string // EgressProxy or EgressForward
	// Forward is host:port that every stream goes to. Whoever runs an entry is
	// then trusted with access to it: the core checks no client credentials.
	Forward string
	// Allow are ranges that clients may reach although they are not public.
	Allow []netip.Prefix
	// DenyPorts are destination ports that clients may not reach.
	DenyPorts []uint16
	// Fallback is what a request without credentials gets: a folder of static
	// files, the http:// address of a site, or empty for a built-in page.
	Fallback string
}

// Limits bound what a core takes on. All must be positive.
type Limits struct {
	Sessions     int           // relay sessions
	Streams      int           // client connections in all
	Handshakes   int           // TLS handshakes of peers under way
	PerSource    int           // of these, from one address
	Handshake    time.Duration // time for one
	Dial         time.Duration // time to resolve and reach a destination
	HeaderBytes  int           // of one HTTP request
	HeaderTime   time.Duration // to send them
	IdleTime     time.Duration // between two requests; no limit inside a tunnel
	ResponseTime time.Duration // for a plain HTTP origin to begin its answer

	Requests      int           // under way in one connection of HTTP/2 or mux.cool
	Tunnels       int           // connections to destinations in all: one of a client may carry many
	DeviceTunnels int           // of these, of one device
	Flows         int           // of datagrams, each a socket
	DeviceFlows   int           // of these, of one device
	FlowIdle      time.Duration // after which a flow ends
	DNSIdle       time.Duration // the same of one that only asks for names
}

// DefaultConfig lets clients reach public addresses, but no mail servers, since
// open relays for mail get a core's address blocked.
func DefaultConfig() Config {
	return Config{
		Egress: Egress{Kind: EgressProxy, DenyPorts: []uint16{25}},
		Limits: Limits{
			Sessions: 1024, Streams: 20000,
			Handshakes: 512, PerSource: 32, Handshake: 5 * time.Second,
			Dial:        10 * time.Second,
			HeaderBytes: 64 << 10, HeaderTime: 10 * time.Second, IdleTime: 2 * time.Minute,
			ResponseTime: time.Minute,
			Requests:     1000,
			Tunnels:      20000, DeviceTunnels: 2000,
			Flows: 10000, DeviceFlows: 500, FlowIdle: time.Minute, DNSIdle: 17 * time.Second,
		},
		Drain: 30 * time.Second,
	}
}

// Validate reports every fault at once; it looks at nothing but c. It returns
// ErrInvalid.
func (c Config) Validate() error {
	var errs []error
	add := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("core: "+format+": %w", append(args, mesh.ErrInvalid)...))
		}
	}
	for _, a := range c.Advertise {
		add(isHostPort(a), "advertise %q: want host:port", mesh.Quotable(a))
	}
	switch e := c.Egress; e.Kind {
	case EgressProxy:
		add(e.Forward == "", "egress.forward is for the kind %s only", EgressForward)
		add(e.Fallback == "" || isFolderOrSite(e.Fallback), "egress.fallback %q: want a folder's absolute path or http://host:port", mesh.Quotable(e.Fallback))
	case EgressForward:
		add(isHostPort(e.Forward), "egress.forward %q: want host:port", mesh.Quotable(e.Forward))
		add(e.Fallback == "", "egress.fallback is for the kind %s only", EgressProxy)
	default:
		add(false, "egress.kind %q: want %s or %s", mesh.Quotable(e.Kind), EgressProxy, EgressForward)
	}
	for _, p := range c.Egress.Allow {
		add(p.IsValid(), "egress.allow: an invalid range")
	}
	add(c.Drain >= 0, "drain %v: want 0 or more", c.Drain)
	c.Limits.validate(add)
	return errors.Join(errs...)
}

func (l Limits) validate(add func(bool, string, ...any)) {
	for name, n := range map[string]int{"sessions": l.Sessions, "streams": l.Streams, "handshakes": l.Handshakes, "perSource": l.PerSource, "headerBytes": l.HeaderBytes,
		"requests": l.Requests, "tunnels": l.Tunnels, "deviceTunnels": l.DeviceTunnels, "flows": l.Flows, "deviceFlows": l.DeviceFlows} {
		add(n > 0, "limits.%s %d: want more than 0", name, n)
	}
	for name, d := range map[string]time.Duration{"handshake": l.Handshake, "dial": l.Dial, "headerTime": l.HeaderTime, "idleTime": l.IdleTime, "responseTime": l.ResponseTime,
		"flowIdle": l.FlowIdle, "dnsIdle": l.DNSIdle} {
		add(d > 0, "limits.%s %v: want more than 0", name, d)
	}
}

func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	return err == nil && host != "" && isPort(port)
}

func isFolderOrSite(s string) bool {
	if s[0] == os.PathSeparator {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "http" && u.Host != ""
}
