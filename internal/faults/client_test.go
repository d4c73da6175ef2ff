//go:build faults

package faults

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
	"github.com/meshctl/meshctl/pkg/admin"
)

// Client is what runs on a device: it knows the device's link and nothing else.
type Client struct {
	Link   admin.DeviceLink
	Device admin.DeviceView

	from  *Host
	wrap  func(net.Conn) net.Conn // what TLS runs over, when set
	dest  string
	roots *x509.CertPool
}

// NewClient adds a device of the member.
func (l *Lab) NewClient(t testing.TB, member string) *Client {
	t.Helper()
	return l.clientIn(t, member, cellName)
}

// clientIn is NewClient in another cell.
func (l *Lab) clientIn(t testing.TB, member, cell string) *Client {
	t.Helper()
	l.devices++
	c := &Client{from: l.Client, dest: l.Origin.At(7), roots: x509.NewCertPool()}
	c.Device = must(t, l, admin.DeviceAdd, admin.DeviceAddRequest{Member: member, Name: fmt.Sprintf("device-%d", l.devices), Cell: cell})
	c.Link = must(t, l, admin.DeviceLinkOf, admin.Ref{Ref: string(c.Device.ID)})
	if !c.roots.AppendCertsFromPEM([]byte(c.Link.CA)) {
		t.Fatal("the link has no CA")
	}
	return c
}

// Connect opens a tunnel through an entry.
func (c *Client) Connect(ctx context.Context, entry *Host) (*lab.Tunnel, error) {
	ctx, cancel := context.WithTimeout(ctx, lab.SetupTime)
	defer cancel()
	raw, err := c.from.Dial(ctx, entry.At(443))
	if err != nil {
		return nil, err
	}
	if c.wrap != nil {
		raw = c.wrap(raw)
	}
	return lab.Open(ctx, raw, c.Link, c.roots, c.dest)
}

// dies waits until the tunnel ends and returns how long that took.
func dies(t *lab.Tunnel, limit time.Duration) (time.Duration, error) {
	begin := time.Now()
	if err := t.SetDeadline(begin.Add(limit)); err != nil {
		return 0, err
	}
	_, err := io.Copy(io.Discard, t)
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return time.Since(begin), fmt.Errorf("still open after %v", limit)
	}
	return time.Since(begin), nil
}

// Try opens a tunnel, sends a byte to the echo and closes it.
func (c *Client) Try(ctx context.Context, entry *Host) error {
	tun, err := c.Connect(ctx, entry)
	if err != nil {
		return fmt.Errorf("through %s: %w", entry.Name, err)
	}
	defer tun.Close()
	return tun.Echo(7, lab.SetupTime)
}
