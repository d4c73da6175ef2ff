package clienthello

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const name = "node-a.example.net"

// E-01: a post-quantum hello spread over records of any size reads like the whole one.
func TestHelloOverSeveralRecordsReadsAsOne(t *testing.T) {
	hello := realHello(t, postQuantum(name))
	if len(hello) < 1460 {
		t.Fatalf("hello of %d bytes: expected more than one packet", len(hello))
	}
	for _, size := range []int{1, 3, 4, 5, 7, 100, 1200, len(hello)} {
		raw := reframe(hello, size)
		for _, segment := range []int{1, 2, 5, 1000, 1460, len(raw)} {
			t.Run(fmt.Sprintf("records of %d in segments of %d", size, segment), func(t *testing.T) {
				h, err := Peek(&chunks{raw, segment})
				if err != nil {
					t.Fatal(err)
				}
				if h.ServerName != name || !slices.Equal(h.ALPN, []string{"h2", "http/1.1"}) {
					t.Errorf("got %q %q", h.ServerName, h.ALPN)
				}
				if !bytes.HasPrefix(raw, h.Raw) {
					t.Error("raw bytes changed")
				}
			})
		}
	}
}

// E-02: the first part of the hello comes alone and the rest much later.
func TestHelloSplitAcrossSegmentsIsAwaited(t *testing.T) {
	hello := realHello(t, postQuantum(name))
	for _, first := range []int{1, 5, 1000, 1460} {
		for _, pause := range []time.Duration{50 * time.Millisecond, 800 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				defer server.Close()
				go func() {
					defer client.Close()
					for _, part := range [][]byte{hello[:first], hello[first:]} {
						<-time.After(pause)
						if _, err := client.Write(part); err != nil {
							t.Error(err)
						}
					}
				}()
				h, err := Peek(server)
				if err != nil || h.ServerName != name || !bytes.Equal(h.Raw, hello) {
					t.Errorf("first %d: got %q, %v", first, h.ServerName, err)
				}
			})
		}
	}
}

// E-03: messages up to the limit pass, larger ones are refused with a reason, and neither holds
// much more than was received.
func TestSizeLimits(t *testing.T) {
	for _, tt := range []struct {
		name string
		raw  []byte
		want Reason
	}{
		{"5.5 KiB in one record", records(padded(5500), maxRecord), ""},
		{"16 KiB of body in two records", records(padded(MaxMessage), maxRecord), ""},
		{"one byte more", records(padded(MaxMessage+1), maxRecord), TooBig},
		{"16.6 K in two records", records(padded(16600), maxRecord), TooBig},
		{"41.7 K", records(padded(41700), maxRecord), TooBig},
		{"65.6 K declared", []byte{22, 3, 1, 0x40, 0, 1, 1, 0, 0x40}, TooBig},
		{"10 KiB in records of one byte", records(padded(10<<10), 1), ""},
		{"12 KiB in records of one byte exceeds the raw limit", records(padded(12<<10), 1), TooBig},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := Peek(bytes.NewReader(tt.raw))
			if got := reasonOf(t, err); got != tt.want {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			if c := cap(h.Raw); c > MaxRaw || c > max(firstRead, 2*len(h.Raw)) {
				t.Errorf("holds %d bytes for %d received", c, len(h.Raw))
			}
		})
	}
}

// E-05: what is not TLS is refused at the first byte that shows it, without waiting for more.
func TestOtherProtocolsAreRefusedAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		want      Reason
	}{
		{"HTTP", "GET / HTTP/1.1\r\n", NotTLS},
		{"SSH", "SSH-2.0-OpenSSH_9.6\r\n", NotTLS},
		{"Postgres SSLRequest", "\x00\x00\x00\x08\x04\xd2\x16\x2f", NotTLS},
		{"SSLv2 hello", "\x80\x2e\x01\x00\x02", NotTLS},
		{"QUIC initial", "\xc3\x00\x00\x00\x01\x08", NotTLS},
		{"TLS alert", "\x15\x03\x01\x00\x02\x02\x28", NotTLS},
		{"TLS application data", "\x17\x03\x03\x00\x10", NotTLS},
		{"PROXY line", "PROXY TCP4 ", NotTLS},
		{"random", "\x9b\x41\x11\xf0", NotTLS},
		{"first byte only", "G", NotTLS},
		{"SSL 2 version", "\x16\x02", NotTLS},
		{"version 3.9", "\x16\x03\x09", NotTLS},
		{"record of no bytes", "\x16\x03\x01\x00\x00", BadHello},
		{"record beyond 16 KiB", "\x16\x03\x01\x40\x01", BadHello},
		{"ServerHello", "\x16\x03\x01\x00\x30\x02", BadHello},
		{"alert inside the hello", "\x16\x03\x01\x00\x02\x01\x00\x15", BadHello},
		{"no bytes after the first record", "\x16\x03\x01\x00\x02\x01\x00\x16\x03\x01\x00\x00", BadHello},
		{"hello of no bytes", "\x16\x03\x01\x00\x04\x01\x00\x00\x00", BadHello},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// A second read would fail the test: the refusal must not wait for it.
			_, err := Peek(io.MultiReader(strings.NewReader(tt.raw), failing{t}))
			if got := reasonOf(t, err); got != tt.want {
				t.Errorf("got %q (%v), want %q", got, err, tt.want)
			}
		})
	}
}

type failing struct{ t *testing.T }

func (f failing) Read([]byte) (int, error) {
	f.t.Error("read again")
	return 0, io.EOF
}

func TestServerNameForms(t *testing.T) {
	for _, tt := range []struct {
		name string
		exts []ext
		sni  string
		want Reason
	}{
		{"a name", []ext{sni(name)}, name, ""},
		{"a name that is no host name is passed on as sent", []ext{sni("../\x00\r\nA.")}, "../\x00\r\nA.", ""},
		{"no extension at all", nil, "", NoSNI},
		{"another extension only", []ext{{43, []byte{2, 3, 4}}}, "", NoSNI},
		{"two names", []ext{sni(name, "b.example.net")}, "", BadHello},
		{"two extensions", []ext{sni(name), sni(name)}, "", BadHello},
		{"empty name", []ext{sni("")}, "", BadHello},
		{"empty list", []ext{sni()}, "", BadHello},
		{"empty extension", []ext{{extServerName, nil}}, "", BadHello},
		{"unknown name type", []ext{{extServerName, vec16(append([]byte{7}, vec16([]byte("x"))...))}}, "", BadHello},
		{"byte after the list", []ext{{extServerName, append(vec16(hostName("x")), 0)}}, "", BadHello},
		{"list longer than the extension", []ext{{extServerName, []byte{0, 9, 0, 0, 1, 'x'}}}, "", BadHello},
		{"empty ALPN", []ext{sni(name), {extALPN, vec16(nil)}}, "", BadHello},
		{"empty protocol in ALPN", []ext{sni(name), {extALPN, vec16([]byte{0})}}, "", BadHello},
		{"truncated ALPN", []ext{sni(name), {extALPN, vec16([]byte{3, 'h', '2'})}}, "", BadHello},
		{"hundreds of protocols", []ext{sni(name), {extALPN, vec16(bytes.Repeat([]byte{1, 'x'}, 300))}}, "", BadHello},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := Peek(bytes.NewReader(records(message(tt.exts...), maxRecord)))
			if got := reasonOf(t, err); got != tt.want {
				t.Fatalf("got %q (%v), want %q", got, err, tt.want)
			}
			if h.ServerName != tt.sni {
				t.Errorf("got %q, want %q", h.ServerName, tt.sni)
			}
		})
	}
}

func TestEveryTruncatedHelloIsRefused(t *testing.T) {
	body := realHello(t, postQuantum(name))[recordHeader+messageHeader:]
	for n := range body {
		if h, err := parse(body[:n]); err == nil {
			t.Fatalf("first %d of %d bytes read as %q", n, len(body), h.ServerName)
		}
	}
}

func TestReadErrorsAreTheCallers(t *testing.T) {
	hello := realHello(t, postQuantum(name))
	t.Run("nothing at all", func(t *testing.T) {
		if _, err := Peek(strings.NewReader("")); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("closed half way", func(t *testing.T) {
		h, err := Peek(bytes.NewReader(hello[:700]))
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(h.Raw) != 700 {
			t.Errorf("got %v with %d bytes", err, len(h.Raw))
		}
	})
	t.Run("deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			defer server.Close()
			if err := server.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := Peek(server); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	})
}

func TestBytesAfterTheHelloAreKept(t *testing.T) {
	raw := append(realHello(t, postQuantum(name)), "early data"...)
	h, err := Peek(bytes.NewReader(raw))
	if err != nil || !bytes.Equal(h.Raw, raw) {
		t.Errorf("got %d of %d bytes, %v", len(h.Raw), len(raw), err)
	}
}

// The standard library's own parser must read the same from what its client sends.
func TestAgreesWithStandardLibrary(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  *tls.Config
	}{
		{"defaults", &tls.Config{ServerName: name}},
		{"post-quantum with ALPN", postQuantum(name)},
		{"TLS 1.2 only", &tls.Config{ServerName: name, MaxVersion: tls.VersionTLS12}},
		{"relay protocol", &tls.Config{ServerName: "x.y", NextProtos: []string{"meshctl-relay/1"}}},
		{"long name", &tls.Config{ServerName: strings.Repeat("a.", 120) + "net"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hello := realHello(t, tt.cfg)
			got, err := Peek(bytes.NewReader(hello))
			if err != nil {
				t.Fatal(err)
			}
			want := standardParse(t, hello)
			if want == nil || got.ServerName != want.ServerName || !slices.Equal(got.ALPN, want.SupportedProtos) {
				t.Errorf("got %q %q, want %+v", got.ServerName, got.ALPN, want)
			}
		})
	}
	t.Run("an address is sent as no name", func(t *testing.T) {
		_, err := Peek(bytes.NewReader(realHello(t, &tls.Config{ServerName: "192.0.2.1"})))
		if got := reasonOf(t, err); got != NoSNI {
			t.Errorf("got %q", got)
		}
	})
}

// standardParse returns what crypto/tls reads from raw, nil if it refuses it.
func standardParse(tb testing.TB, raw []byte) *tls.ClientHelloInfo {
	var info *tls.ClientHelloInfo
	cfg := &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		info = h
		return nil, errors.New("seen enough")
	}}
	err := tls.Server(replay{r: bytes.NewReader(raw)}, cfg).HandshakeContext(tb.Context())
	if err == nil {
		tb.Error("handshake completed")
	}
	return info
}

// replay is a connection that reads from r and swallows what is written.
type replay struct {
	net.Conn
	r io.Reader
}

func (c replay) Read(p []byte) (int, error)       { return c.r.Read(p) }
func (c replay) Write(p []byte) (int, error)      { return len(p), nil }
func (c replay) Close() error                     { return nil }
func (c replay) SetWriteDeadline(time.Time) error { return nil }

func reasonOf(t *testing.T, err error) Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("not a refusal: %v", err)
	}
	return e.Reason
}
