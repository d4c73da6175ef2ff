//go:build faults

package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// revocation is what is measured when somebody is refused from now on.
type revocation struct {
	who  string
	open []io.ReadCloser // are to be cut
	// refused return nil once new connections are refused, each at another place.
	refused map[string]func(context.Context) error
	do      func()
}

// measure does it, and wants all that is open cut and all that is new refused.
func (l *Lab) measure(t *testing.T, r revocation) {
	t.Helper()
	begin := time.Now()
	var mu sync.Mutex
	var cut, refused time.Duration
	note := func(to *time.Duration, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		*to = max(*to, took)
	}
	var wg sync.WaitGroup
	for _, conn := range r.open {
		wg.Go(func() {
			defer conn.Close()
			if err := cutWithin(conn, slack*revokeLimit); err != nil {
				t.Errorf("an open connection of the %s: %v", r.who, err)
			}
			note(&cut, time.Since(begin))
		})
	}
	r.do()
	done := time.Since(begin)
	for place, try := range r.refused {
		wg.Go(func() {
			note(&refused, l.untilRefused(t, place, begin, try))
		})
	}
	wg.Wait()
	t.Logf("%s: the call took %v; %d open connections cut within %v, new ones refused at %d places within %v",
		r.who, done.Round(time.Millisecond), len(r.open), cut.Round(time.Millisecond), len(r.refused), refused.Round(time.Millisecond))
	within(t, "cutting", cut, revokeLimit)
	within(t, "refusing", refused, revokeLimit)
	l.Note(r.who+" is refused from now on", "%d open connections cut within %s, new ones refused at %d places within %s", len(r.open), seconds(cut), len(r.refused), seconds(refused))
}

// untilRefused knocks, slowly enough not to be turned away for that, and returns
// when it came of whom the first was refused.
func (l *Lab) untilRefused(t *testing.T, place string, begin time.Time, try func(context.Context) error) time.Duration {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		came := time.Since(begin)
		err := try(t.Context())
		if err == nil {
			return came
		}
		if time.Since(begin) > slack*revokeLimit {
			t.Errorf("%s after %v: %v", place, time.Since(begin), err)
			return time.Since(begin)
		}
		<-tick.C
	}
}

// cutWithin waits for the end of a connection.
func cutWithin(conn io.Reader, limit time.Duration) error {
	if c, ok := conn.(interface{ SetDeadline(time.Time) error }); ok {
		if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("still open after %v", limit)
	}
	return nil
}

// tunnels opens n tunnels through each of these entries.
func (c *Client) tunnels(t *testing.T, n int, entries ...*Host) (out []io.ReadCloser) {
	t.Helper()
	for _, e := range entries {
		for range n {
			tun, err := c.Connect(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, tun)
		}
	}
	return out
}

// refusedAt are new connections of the client through these entries.
func (c *Client) refusedAt(entries ...*Host) map[string]func(context.Context) error {
	out := map[string]func(context.Context) error{}
	for _, e := range entries {
		out["a client at "+e.Name] = func(ctx context.Context) error {
			if c.Try(ctx, e) == nil {
				return errors.New("it is served")
			}
			return nil
		}
	}
	return out
}

// with opens every door with the certificate, and adds the connections and the
// doors.
func (r *revocation) with(t *testing.T, cert tls.Certificate, doors ...door) {
	t.Helper()
	for _, d := range doors {
		conn, err := d.knock(t.Context(), cert)
		if err != nil {
			t.Fatalf("%s, before: %v", d.name, err)
		}
		r.open = append(r.open, conn)
		r.refused[d.name] = func(ctx context.Context) error { return d.refuses(ctx, cert) }
	}
}

func (l *Lab) meshPorts(from *Host, but ...*Host) (out []door) {
	for _, h := range l.Mgmt {
		if !slices.Contains(but, h) {
			out = append(out, l.meshPort(from, h))
		}
	}
	return out
}

func (l *Lab) relayPorts(from *Host, proto string) (out []door) {
	for _, h := range l.Cores {
		out = append(out, relayPort(from, h, proto))
	}
	return out
}
