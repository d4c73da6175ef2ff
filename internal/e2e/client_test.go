package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
)

// client is what runs on a device: it knows the device's link and nothing else.
type client struct {
	link  admin.DeviceLink
	id    string
	roots *x509.CertPool
}

func clientOf(t *testing.T, m *dev.Mesh, id string, link admin.DeviceLink) client {
	t.Helper()
	c := client{link: link, id: id, roots: x509.NewCertPool()}
	if !c.roots.AppendCertsFromPEM([]byte(link.CA)) {
		t.Fatal("the link has no CA")
	}
	return c
}

// addDevice makes a device that is served.
func addDevice(t *testing.T, m *dev.Mesh, name string) client {
	t.Helper()
	d := call(t, m, admin.DeviceAdd, admin.DeviceAddRequest{Member: dev.MemberName, Name: name, Cell: dev.CellName})
	return clientOf(t, m, string(d.ID), call(t, m, admin.DeviceLinkOf, admin.Ref{Ref: string(d.ID)}))
}

// tls is the client's TLS configuration.
func (c client) tls() *tls.Config {
	return &tls.Config{ServerName: string(c.link.ServerName), RootCAs: c.roots, MinVersion: tls.VersionTLS13}
}

// tunnel is a CONNECT tunnel. Reads see what came after the answer.
type tunnel struct {
	*tls.Conn
	buffered *bufio.Reader
}

func (t *tunnel) Read(p []byte) (int, error) { return t.buffered.Read(p) }

// statusError is an answer other than 200.
type statusError struct {
	*http.Response
}

func (e statusError) Error() string { return "the proxy answers " + e.Status }

const setupTime = 10 * time.Second

// connect opens a tunnel through entry to dest, both host:port.
func (c client) connect(ctx context.Context, entry, dest string) (*tunnel, error) {
	raw, err := dial(ctx, entry)
	if err != nil {
		return nil, err
	}
	return c.over(ctx, raw, dest)
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// over opens a tunnel to dest over a connection to an entry, which is closed on
// an error.
func (c client) over(ctx context.Context, raw net.Conn, dest string) (*tunnel, error) {
	return c.request(ctx, raw, "CONNECT "+dest+" HTTP/1.1\r\nHost: "+dest+"\r\nProxy-Authorization: "+c.basic()+"\r\n\r\n")
}

func (c client) basic() string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(c.link.User, c.link.Secret)
	return r.Header.Get("Authorization")
}

// request speaks TLS over raw and sends one request; any answer but 200 is a
// statusError, with a body that may be read until raw is closed.
func (c client) request(ctx context.Context, raw net.Conn, head string) (_ *tunnel, err error) {
	conn := tls.Client(raw, c.tls())
	defer func() {
		if _, ok := errors.AsType[statusError](err); err != nil && !ok {
			err = errors.Join(err, raw.Close())
		}
	}()
	if err := conn.SetDeadline(time.Now().Add(setupTime)); err != nil {
		return nil, err
	}
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, head); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, &http.Request{Method: strings.Fields(head)[0]})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, statusError{resp}
	}
	return &tunnel{conn, r}, conn.SetDeadline(time.Time{})
}

// mustConnect opens a tunnel that is closed at the end of the test.
func (c client) mustConnect(t *testing.T, entry, dest string) *tunnel {
	t.Helper()
	tun, err := c.connect(t.Context(), entry, dest)
	if err != nil {
		t.Fatalf("connect through %s: %v", entry, err)
	}
	t.Cleanup(func() { _ = tun.Close() }) // many tests close it themselves
	return tun
}

// tryEcho opens a tunnel, sends a few bytes to an echo and closes it.
func (c client) tryEcho(ctx context.Context, entry, echo string) error {
	tun, err := c.connect(ctx, entry, echo)
	if err != nil {
		return err
	}
	defer tun.Close()
	return tun.echo(setupTime)
}

// echoText is what echo sends.
const echoText = "is anybody there?"

// echo sends a few bytes and wants them back within limit.
func (t *tunnel) echo(limit time.Duration) error {
	if err := t.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := io.WriteString(t, echoText); err != nil {
		return err
	}
	got := make([]byte, len(echoText))
	if _, err := io.ReadFull(t, got); err != nil {
		return err
	}
	if string(got) != echoText {
		return fmt.Errorf("echo gave %q", got)
	}
	return t.SetDeadline(time.Time{})
}

// dies waits until the tunnel ends, and returns how long that took.
func (t *tunnel) dies(limit time.Duration) (time.Duration, error) {
	begin := time.Now()
	if err := t.SetReadDeadline(begin.Add(limit)); err != nil {
		return 0, err
	}
	_, err := io.Copy(io.Discard, t)
	took := time.Since(begin)
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return took, fmt.Errorf("still open after %v", took)
	}
	return took, nil
}

// echoServer is a destination that gives back what it gets, then half-closes.
func echoServer(t testing.TB) string {
	t.Helper()
	return serve(t, "127.0.0.2:0", func(c *net.TCPConn) {
		_, _ = io.Copy(c, c) // ends as the tunnel does
		_ = c.CloseWrite()   // it may be reset by then
		_, _ = io.ReadAll(c) // until the other side closes too
	})
}

// isReady asks a part's private listener.
func isReady(ctx context.Context, health string) error {
	_, err := get(ctx, "http://"+health+"/readyz")
	return err
}

// get fetches a page without a proxy; any answer but 200 is an error.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}
