package e2e

import (
	"io"
	"net"
	"testing"
)

const (
	proxyV1 = "PROXY TCP4 203.0.113.7 198.51.100.1 40000 443\r\n"
	proxyV2 = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xcb\x00\x71\x07\xc6\x33\x64\x01\x9c\x40\x01\xbb"
	local   = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00" // of a balancer's own health check
)

// headed dials an entry and sends a PROXY header first.
func headed(t *testing.T, entry, header string) net.Conn {
	t.Helper()
	conn, err := dial(t.Context(), entry)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, header); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestProxyProtocolFromATrustedRange(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	c, echo := addDevice(t, m, "balanced"), echoServer(t)
	trusting := m.EntryAddresses[1]
	for name, header := range map[string]string{"version 1": proxyV1, "version 2": proxyV2, "version 2 LOCAL": local, "no header": ""} {
		t.Run(name, func(t *testing.T) {
			tun, err := c.over(t.Context(), headed(t, trusting, header), echo)
			if err != nil {
				t.Fatal(err)
			}
			defer tun.Close()
			if err := tun.echo(setupTime); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestProxyProtocolThatIsNotToBeBelieved(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	c, echo := addDevice(t, m, "unbalanced"), echoServer(t)
	tests := []struct{ name, entry, header string }{
		{"from a range that is not trusted, version 1", m.EntryAddresses[0], proxyV1},
		{"from a range that is not trusted, version 2", m.EntryAddresses[0], proxyV2},
		{"two headers", m.EntryAddresses[1], proxyV1 + proxyV1},
		{"an address that is none", m.EntryAddresses[1], "PROXY TCP4 localhost ::1 1 2\r\n"},
		{"version 2 cut short", m.EntryAddresses[1], proxyV2[:14] + "\x00\x04\x7f\x00\x00\x01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tun, err := c.over(t.Context(), headed(t, tt.entry, tt.header), echo); err == nil {
				_ = tun.Close() // it should never have opened
				t.Error("the connection was served")
			}
		})
	}
	t.Run("an endless line", func(t *testing.T) {
		refuses(t, m.EntryAddresses[1], append([]byte("PROXY "), make([]byte, 1<<20)...))
	})
}
