package core

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// fakeConn counts its closing.
type fakeConn struct {
	net.Conn
	to     netip.AddrPort
	closed *[]netip.AddrPort
}

func (c fakeConn) Close() error { *c.closed = append(*c.closed, c.to); return nil }

func addrs(list ...string) (out []netip.AddrPort) {
	for _, s := range list {
		out = append(out, netip.MustParseAddrPort(s))
	}
	return out
}

func TestInterleave(t *testing.T) {
	got := interleave(addrs("1.1.1.1:1", "1.1.1.2:1", "1.1.1.3:1", "[2::1]:1", "[2::2]:1"))
	want := addrs("[2::1]:1", "1.1.1.1:1", "[2::2]:1", "1.1.1.2:1", "1.1.1.3:1")
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if n := len(interleave(slices.Repeat(addrs("1.1.1.1:1"), 50))); n != maxAttempts {
		t.Errorf("%d attempts", n)
	}
}

// RFC 8305: a family that does not answer costs a quarter of a second, one that
// refuses costs nothing, and the losers are closed.
func TestHappyEyeballs(t *testing.T) {
	const never = time.Hour
	tests := []struct {
		name   string
		delays []time.Duration // per address; negative fails after that time
		winner int             // index, -1: none
		took   time.Duration
	}{
		{"the first answers", []time.Duration{10 * time.Millisecond, never}, 0, 10 * time.Millisecond},
		{"the first is silent", []time.Duration{never, 10 * time.Millisecond}, 1, 260 * time.Millisecond},
		{"the first is refused", []time.Duration{-time.Millisecond, 10 * time.Millisecond}, 1, 11 * time.Millisecond},
		{"the first is slow but still wins", []time.Duration{300 * time.Millisecond, 100 * time.Millisecond}, 0, 300 * time.Millisecond},
		{"all are refused", []time.Duration{-time.Millisecond, -time.Millisecond}, -1, 2 * time.Millisecond},
		{"nobody answers", []time.Duration{never, never}, -1, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := addrs("[2::1]:1", "1.1.1.1:1")
				var closed []netip.AddrPort
				dial := func(ctx context.Context, to netip.AddrPort) (fakeConn, error) {
					d := tt.delays[slices.Index(all, to)]
					select {
					case <-time.After(d.Abs()):
					case <-ctx.Done():
						return fakeConn{}, ctx.Err()
					}
					if d < 0 {
						return fakeConn{}, errors.New("refused")
					}
					return fakeConn{to: to, closed: &closed}, nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				c, err := race(ctx, all, dial)
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				if tt.winner < 0 {
					if err == nil {
						t.Error("want an error")
					}
					return
				}
				if err != nil || c.to != all[tt.winner] {
					t.Errorf("connected to %v, %v", c.to, err)
				}
				if slices.Contains(closed, c.to) {
					t.Error("the winner was closed")
				}
			})
		})
	}
}

func TestALoserThatConnectsIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := addrs("[2::1]:1", "1.1.1.1:1")
		var closed []netip.AddrPort
		dial := func(_ context.Context, to netip.AddrPort) (fakeConn, error) {
			time.Sleep(300 * time.Millisecond) // deaf to its context
			return fakeConn{to: to, closed: &closed}, nil
		}
		c, err := race(t.Context(), all, dial)
		if err != nil || c.to != all[0] || !slices.Equal(closed, all[1:]) {
			t.Errorf("won %v, closed %v, %v", c.to, closed, err)
		}
	})
}
