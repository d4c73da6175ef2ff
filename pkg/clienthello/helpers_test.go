package clienthello

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"testing"
)

// realHello returns the bytes crypto/tls sends first for cfg.
func realHello(tb testing.TB, cfg *tls.Config) []byte {
	tb.Helper()
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(client, cfg).HandshakeContext(tb.Context()) // fails when the pipe closes
	}()
	header := make([]byte, recordHeader)
	if _, err := io.ReadFull(server, header); err != nil {
		tb.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err := io.ReadFull(server, body); err != nil {
		tb.Fatal(err)
	}
	server.Close()
	client.Close()
	<-done
	return append(header, body...)
}

func postQuantum(name string) *tls.Config {
	return &tls.Config{
		ServerName:       name,
		NextProtos:       []string{"h2", "http/1.1"},
		CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.X25519},
	}
}

// reframe puts the handshake message of a one-record hello into records of n bytes.
func reframe(hello []byte, n int) []byte { return records(hello[recordHeader:], n) }

func records(msg []byte, n int) []byte {
	var out []byte
	for len(msg) > 0 {
		part := msg[:min(n, len(msg))]
		out = append(out, typeHandshake, 3, 1)
		out = binary.BigEndian.AppendUint16(out, uint16(len(part)))
		out = append(out, part...)
		msg = msg[len(part):]
	}
	return out
}

type ext struct {
	typ  uint16
	data []byte
}

// message builds a ClientHello message, header included.
func message(exts ...ext) []byte {
	var list []byte
	for _, e := range exts {
		list = binary.BigEndian.AppendUint16(list, e.typ)
		list = append(list, vec16(e.data)...)
	}
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0)                // session id
	body = append(body, 0, 2, 0x13, 0x01) // cipher suites
	body = append(body, 1, 0)             // compression
	body = append(body, vec16(list)...)
	return append([]byte{typeClientHello, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
}

func vec16(b []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

func hostName(name string) []byte { return append([]byte{nameTypeHost}, vec16([]byte(name))...) }

func sni(names ...string) ext {
	var list []byte
	for _, n := range names {
		list = append(list, hostName(n)...)
	}
	return ext{extServerName, vec16(list)}
}

// padded returns a message of exactly n bytes of body with a server name.
func padded(n int) []byte {
	const padding = 21
	empty := message(sni("node-a.example.net"), ext{padding, nil})
	return message(sni("node-a.example.net"), ext{padding, make([]byte, n-(len(empty)-messageHeader))})
}

// chunks is a reader that returns at most n bytes at a time.
type chunks struct {
	b []byte
	n int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.b[:min(c.n, len(c.b))])
	c.b = c.b[n:]
	return n, nil
}
