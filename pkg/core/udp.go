package core

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// stale is how long a flow trusts what it knows: addresses of names, and
	// which addresses are this machine's.
	stale   = 10 * time.Second
	portDNS = 53
)

// flow is a socket for the datagrams of one flow of a client, to wherever it
// sends (full cone): whoever may be reached may answer. It ends when nothing
// has passed for a while.
type flow struct {
	dialer *dialer
	conn   *net.UDPConn
	raw    syscall.RawConn
	limits Limits
	once   sync.Once
	done   func()
	drop   func(reason string)

	used   atomic.Int64 // when something passed, in nanoseconds
	beyond atomic.Bool  // it has other destinations than DNS
	own    atomic.Pointer[ownAddrs]
	// only is whom alone the client hears, where its protocol cannot tell it from
	// whom a datagram is; unset: whoever may be reached.
	fixed bool
	only  atomic.Pointer[netip.AddrPort]
	names map[destination]*located // of the sender alone
}

// ownAddrs are those of this machine for a while: to ask for each datagram
// would cost more than to send it.
type ownAddrs struct {
	list  []netip.Addr
	until time.Time
}

// listen opens a flow for g. It must be closed. It returns ErrUnavailable
// when too many are open.
func (h *handler) listen(g guest) (*flow, error) {
	if err := h.flows.take(g.device.ID); err != nil {
		h.metrics.dropped("limit")
		return nil, err
	}
	free := func() { h.flows.give(g.device.ID) }
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		free()
		return nil, fmt.Errorf("core: udp: %w", err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		free()
		return nil, errors.Join(fmt.Errorf("core: udp: %w", err), conn.Close())
	}
	f := &flow{dialer: h.dialer, conn: conn, raw: raw, limits: h.limits, done: free, drop: h.metrics.dropped, names: map[destination]*located{}}
	f.touch()
	return f, nil
}

// Close makes Receive return. It may be called again.
func (f *flow) Close() error {
	f.once.Do(f.done)
	return f.conn.Close()
}

func (f *flow) touch() { f.used.Store(time.Now().UnixNano()) }

// idle is how long the flow may be quiet: one that only asks for names is over
// when the answers have come or will not come.
func (f *flow) idle() time.Duration {
	if f.beyond.Load() {
		return f.limits.FlowIdle
	}
	return min(f.limits.DNSIdle, f.limits.FlowIdle)
}

// Send passes on one datagram. What cannot be sent is dropped and counted, as
// networks do; the error is that of a flow that is over.
func (f *flow) Send(ctx context.Context, p []byte, where clientproto.Destination) error {
	f.touch()
	to, err := destinationOf(where)
	if err != nil {
		f.drop(dropReason(err))
		return nil
	}
	if to.port != portDNS {
		f.beyond.Store(true)
	}
	at, err := f.locate(ctx, to)
	if err != nil {
		f.drop(dropReason(err))
		return ctx.Err()
	}
	for i, ap := range at.addrs {
		if err = f.judge(ap); err == nil {
			f.hear(ap)
			_, err = f.conn.WriteToUDPAddrPort(p, ap)
		}
		if err == nil {
			at.addrs[0], at.addrs[i] = at.addrs[i], at.addrs[0]
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
	}
	f.drop(dropReason(err))
	return nil
}

// hear notes where a fixed flow sends to, before the answer can come.
func (f *flow) hear(ap netip.AddrPort) {
	if f.fixed && !f.hears(ap) {
		f.only.Store(&ap)
	}
}

func (f *flow) hears(from netip.AddrPort) bool {
	only := f.only.Load()
	return !f.fixed || only != nil && *only == from
}

// judge applies the policy of now to one address.
func (f *flow) judge(ap netip.AddrPort) error {
	p, now := f.dialer.policy.Load(), time.Now()
	own := f.own.Load()
	if own == nil || now.After(own.until) {
		own = &ownAddrs{p.own(), now.Add(stale)}
		f.own.Store(own)
	}
	return p.check(ap, own.list)
}

// Receive waits for the next datagram that may come in, and hands it to take
// while its bytes are valid. It returns os.ErrDeadlineExceeded when the flow was
// quiet for too long, and what take returns if that is an error.
func (f *flow) Receive(take func(p []byte, from netip.AddrPort) error) error {
	if err := f.wait(); err != nil {
		return err
	}
	buf := datagramPool.Get().(*datagram)
	defer datagramPool.Put(buf)
	n, from, err := f.conn.ReadFromUDPAddrPort(buf[:])
	if err != nil {
		if errors.Is(err, net.ErrClosed) || tookTooLong(err) {
			return err
		}
		return nil // an ICMP message about a datagram before
	}
	from = netip.AddrPortFrom(from.Addr().Unmap().WithZone(""), from.Port())
	if !f.hears(from) || f.judge(from) != nil {
		f.drop("uninvited")
		return nil
	}
	f.touch()
	return take(buf[:n], from)
}

// wait returns when there is a datagram. It holds no buffer meanwhile, since
// most flows are quiet most of the time.
func (f *flow) wait() error {
	for {
		until := time.Unix(0, f.used.Load()).Add(f.idle())
		if err := f.conn.SetReadDeadline(until); err != nil {
			return err
		}
		err := f.raw.Read(pending)
		if !tookTooLong(err) {
			return err
		}
		if !time.Now().Before(time.Unix(0, f.used.Load()).Add(f.idle())) {
			return fmt.Errorf("core: udp: quiet: %w", os.ErrDeadlineExceeded)
		}
	}
}

// dropReason is a label of few values.
func dropReason(err error) string {
	switch {
	case errors.Is(err, mesh.ErrDenied):
		return "denied"
	case errors.Is(err, mesh.ErrInvalid), errors.Is(err, mesh.ErrNotFound):
		return "address"
	}
	return "unreachable"
}
