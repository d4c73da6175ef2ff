package core

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

const (
	// stagger is RFC 8305's recommended connection attempt delay.
	stagger = 250 * time.Millisecond
	// maxAttempts bounds the addresses tried for one name.
	maxAttempts = 8
)

// dialer reaches destinations: resolve, check every address, connect to one of
// those checked. The name is not resolved again in between, so an answer that
// changes (DNS rebinding) changes nothing.
type dialer struct {
	policy  atomic.Pointer[policy]
	resolve resolveFunc
	timeout time.Duration
	vigil   relay.Vigil // over what clients have open
}

// dial returns ErrDenied for what the policy forbids, context.DeadlineExceeded
// when time ran out, and otherwise why the destination cannot be reached.
func (d *dialer) dial(ctx context.Context, to destination) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	p := d.policy.Load()
	if err := p.checkName(to); err != nil {
		return nil, err
	}
	ips := []netip.Addr{to.ip}
	if to.host != "" {
		var err error
		if ips, err = d.resolve(ctx, to.host); err != nil {
			return nil, timely(ctx, fmt.Errorf("core: resolve: %w", err))
		}
	}
	addrs, err := p.permitted(ips, to.port)
	if err != nil {
		return nil, err
	}
	c, err := race(ctx, interleave(addrs), dialTCP)
	if err != nil {
		return nil, timely(ctx, fmt.Errorf("core: dial: %w", err))
	}
	return c, nil
}

// timely makes sure that an error after the deadline says so.
func timely(ctx context.Context, err error) error {
	if e := ctx.Err(); e != nil && !errors.Is(err, e) {
		return fmt.Errorf("%w: %w", e, err)
	}
	return err
}

func dialTCP(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	d := net.Dialer{KeepAliveConfig: relay.KeepAlive()}
	return d.DialTCP(ctx, "tcp", netip.AddrPort{}, to)
}

// interleave orders addresses by RFC 8305: the first family, then alternately,
// beginning with IPv6; not more than maxAttempts.
func interleave(addrs []netip.AddrPort) []netip.AddrPort {
	var six, four []netip.AddrPort
	for _, a := range addrs {
		if a.Addr().Is4() {
			four = append(four, a)
		} else {
			six = append(six, a)
		}
	}
	var out []netip.AddrPort
	for i := range max(len(six), len(four)) {
		if i < len(six) {
			out = append(out, six[i])
		}
		if i < len(four) {
			out = append(out, four[i])
		}
	}
	return out[:min(len(out), maxAttempts)]
}

type attempt[C net.Conn] struct {
	conn C
	err  error
}

// race dials addrs one after the other, the next after stagger or as soon as
// one fails, and returns the first connection. All others are closed before it
// returns.
func race[C net.Conn](ctx context.Context, addrs []netip.AddrPort, dial func(context.Context, netip.AddrPort) (C, error)) (won C, err error) {
	if len(addrs) == 0 {
		return won, fmt.Errorf("no address: %w", mesh.ErrNotFound)
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan attempt[C], len(addrs))
	var wg sync.WaitGroup
	defer func() {
		cancel()
		wg.Wait()
		closeLosers(results)
	}()
	var errs []error
	next := time.NewTimer(0)
	defer next.Stop()
	for started, ended := 0, 0; ended < len(addrs); {
		select {
		case <-next.C:
			if started == len(addrs) {
				continue
			}
			to := addrs[started]
			started++
			wg.Go(func() { c, err := dial(ctx, to); results <- attempt[C]{c, err} })
			next.Reset(stagger)
		case a := <-results:
			if a.err == nil {
				return a.conn, nil
			}
			ended++
			errs = append(errs, a.err)
			next.Reset(0)
		case <-ctx.Done():
			return won, errors.Join(append(errs, ctx.Err())...)
		}
	}
	return won, errors.Join(errs...)
}

func closeLosers[C net.Conn](results chan attempt[C]) {
	close(results)
	for a := range results {
		if a.err == nil {
			_ = a.conn.Close() // nothing was sent on it
		}
	}
}
