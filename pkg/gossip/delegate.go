package gossip

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist asks and tells.
type delegate struct{ g *Gossip }

// NodeMeta implements memberlist.Delegate.
func (d delegate) NodeMeta(limit int) []byte {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	b, err := json.Marshal(d.g.Facts)
	if err != nil || len(b) > limit {
		return nil
	}
	return b
}

// NotifyMsg, GetBroadcasts, LocalState and MergeRemoteState implement
// memberlist.Delegate: nothing but facts is exchanged.
func (delegate) NotifyMsg([]byte)                {}
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (delegate) LocalState(bool) []byte          { return nil }
func (delegate) MergeRemoteState([]byte, bool)   {}

// NotifyJoin, NotifyUpdate and NotifyLeave implement memberlist.EventDelegate.
func (d delegate) NotifyJoin(n *memberlist.Node)   { d.g.note(n, true) }
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.g.note(n, true) }
func (d delegate) NotifyLeave(n *memberlist.Node)  { d.g.note(n, false) }

// note copies what n is now, while memberlist holds it still.
func (g *Gossip) note(n *memberlist.Node, there bool) {
	g.mu.Lock()
	if g.there == nil {
		g.there = make(map[string]node)
	}
	delete(g.there, n.Name)
	if there {
		g.there[n.Name] = node{bytes.Clone(n.Meta), addrOf(n)}
	}
	g.mu.Unlock()
	g.wake()
}

// errForeign keeps a server out that is not configured.
var errForeign = errors.New("gossip: it is not a configured peer")

var errLong = errors.New("gossip: its facts are too long")

// NotifyAlive implements memberlist.AliveDelegate.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	if a := addrOf(n); a != d.g.Listen && !d.g.allowed[a] {
		return errForeign
	}
	if len(n.Meta) > maxFacts { // memberlist bounds what it sends, not what it reads
		return errLong
	}
	return nil
}

func (g *Gossip) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// knows says whether anything may come from that address.
func (g *Gossip) knows(a netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a == g.Listen.Addr() {
		return true
	}
	for p := range g.allowed {
		if p.Addr() == a {
			return true
		}
	}
	return false
}

// resolveTime bounds the look-up of one peer's name.
const resolveTime = 2 * time.Second

// setPeers resolves the names of the peers anew. A name that does not resolve
// now keeps nobody else out.
func (g *Gossip) setPeers(ctx context.Context) {
	allowed := make(map[netip.AddrPort]bool)
	for _, p := range g.Peers(ctx) {
		for _, a := range Resolve(ctx, p) {
			allowed[a] = true
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.allowed = allowed
}

// Resolve returns the addresses of a peer, host:port; none when its name is not
// known now.
func Resolve(ctx context.Context, peer string) []netip.AddrPort {
	host, port, err := net.SplitHostPort(peer)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	out := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		out[i] = netip.AddrPortFrom(ip.Unmap(), uint16(n))
	}
	return out
}

func addrOf(n *memberlist.Node) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(n.Addr)
	return netip.AddrPortFrom(ip.Unmap(), n.Port)
}

// writer takes memberlist's log, which is debug to us but for one line.
type writer struct{ g *Gossip }

// Write implements io.Writer, one line each.
func (w writer) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	if m := fromPattern().FindStringSubmatch(line); m != nil && strings.Contains(line, "no installed keys could decrypt") {
		if a, err := netip.ParseAddrPort(m[1]); err == nil {
			w.g.strange(a.Addr().Unmap())
		}
	}
	w.g.Log.Debug("memberlist reported", "reason", line)
	return len(b), nil
}

func fromPattern() *regexp.Regexp { return regexp.MustCompile(`from=(\S+)`) }

// strange notes that somebody there has another key.
func (g *Gossip) strange(a netip.Addr) {
	g.mu.Lock()
	if g.foreign == nil {
		g.foreign = make(map[netip.Addr]time.Time)
	}
	if len(g.foreign) < 64 {
		g.foreign[a] = time.Now()
	}
	g.mu.Unlock()
	g.wake()
}
