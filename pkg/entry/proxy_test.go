package entry

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
)

func v2(command, family byte, body string) string {
	return string(sigV2) + string([]byte{0x20 | command, family, byte(len(body) >> 8), byte(len(body))}) + body
}

// E-16: a header of at most 536 bytes, in any segments, without a panic, and
// addresses in one form.
func TestReadProxy(t *testing.T) {
	four := "\xc0\x00\x02\x01\xc6\x33\x64\x01\x00\x63\x01\xbb"
	mapped := strings.Repeat("\x00", 10) + "\xff\xff\xc0\x00\x02\x01" + strings.Repeat("\x00", 16) + "\x00\x63\x01\xbb"
	tests := []struct {
		name, in string
		required bool
		client   string // "" for none
		rest     string
		bad      bool
	}{
		{name: "version 1, IPv4", in: "PROXY TCP4 192.0.2.1 198.51.100.1 99 443\r\nhello", client: "192.0.2.1:99", rest: "hello"},
		{name: "version 1, IPv6", in: "PROXY TCP6 2001:db8::1 2001:db8::2 99 443\r\n", client: "[2001:db8::1]:99"},
		{name: "version 1, IPv4 in IPv6", in: "PROXY TCP6 ::ffff:192.0.2.1 ::ffff:198.51.100.1 99 443\r\n", client: "192.0.2.1:99"},
		{name: "version 1, unknown", in: "PROXY UNKNOWN\r\nhello", rest: "hello"},
		{name: "version 1 that never ends", in: "PROXY " + strings.Repeat("x", 1<<20), bad: true},
		{name: "version 1, its longest", in: "PROXY TCP4 192.0.2.1 198.51.100.1 99 443" + strings.Repeat(" ", 80) + "\r\n", bad: true},
		{name: "version 1 with a port that is none", in: "PROXY TCP4 192.0.2.1 198.51.100.1 x 443\r\n", bad: true},
		{name: "version 1 ended by a line feed alone", in: "PROXY TCP4 192.0.2.1 198.51.100.1 99 443\n", bad: true},
		{name: "version 2, IPv4", in: v2(1, 0x11, four) + "hello", client: "192.0.2.1:99", rest: "hello"},
		{name: "version 2, IPv4 in IPv6", in: v2(1, 0x21, mapped), client: "192.0.2.1:99"},
		{name: "version 2 with extras", in: v2(1, 0x11, four+"\x04\x00\x05aaaaa") + "hello", client: "192.0.2.1:99", rest: "hello"},
		{name: "version 2 of the balancer itself", in: v2(0, 0, "") + "hello", rest: "hello"},
		{name: "version 2 without addresses", in: v2(1, 0x11, ""), bad: true},
		{name: "version 2 cut short", in: v2(1, 0x11, four[:5]), bad: true},
		{name: "version 2 for a unix socket", in: v2(1, 0x31, strings.Repeat("x", 216)), bad: true},
		{name: "version 2 of 536 bytes", in: v2(1, 0x11, four+"\x04\x01\xf9"+strings.Repeat("a", 505)) + "hello", client: "192.0.2.1:99", rest: "hello"},
		{name: "version 2 of 537 bytes", in: v2(1, 0x11, four+"\x04\x01\xfa"+strings.Repeat("a", 506)), bad: true},
		{name: "version 2 of 65,535 bytes", in: string(sigV2) + "\x21\x11\xff\xff" + strings.Repeat("a", 65535), bad: true},
		{name: "none", in: "\x16\x03\x01", rest: "\x16\x03\x01"},
		{name: "none where one is required", in: "\x16\x03\x01", required: true, bad: true},
		{name: "an end after half of it", in: "PROXY TCP4 192", bad: true},
		{name: "nothing", in: "", bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in)), iotest.DataErrReader(strings.NewReader(tt.in))} {
				client, rest, err := readProxy(r, tt.required)
				if tt.bad {
					if err == nil {
						t.Errorf("got %v, want an error", client)
					}
					continue
				}
				after, _ := io.ReadAll(r)
				got := ""
				if client.IsValid() {
					got = client.String()
				}
				if err != nil || got != tt.client || string(rest)+string(after) != tt.rest {
					t.Errorf("got %q, then %q, %v; want %q, then %q", got, string(rest)+string(after), err, tt.client, tt.rest)
				}
			}
		})
	}
}

func FuzzReadProxy(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.1 198.51.100.1 99 443\r\nhello"))
	f.Add([]byte(v2(1, 0x11, "\xc0\x00\x02\x01\xc6\x33\x64\x01\x00\x63\x01\xbb") + "hello"))
	f.Add([]byte(v2(0, 0, "")))
	f.Add([]byte("\x16\x03\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := &counting{r: bytes.NewReader(in)}
		client, rest, err := readProxy(r, false)
		if r.n > maxProxyV2 {
			t.Errorf("%d bytes were read", r.n)
		}
		if err != nil {
			if client.IsValid() || rest != nil {
				t.Errorf("an error and %v, %q", client, rest)
			}
			return
		}
		if !bytes.HasSuffix(in[:r.n], rest) {
			t.Error("what follows the header is not what was sent")
		}
		if a := client.Addr(); client.IsValid() && (a.Is4In6() || a.Zone() != "") {
			t.Errorf("client %v", client)
		}
		slow, slowRest, slowErr := readProxy(iotest.OneByteReader(bytes.NewReader(in)), false)
		if slow != client || slowErr != nil && !errors.Is(slowErr, io.EOF) || !bytes.HasPrefix(rest, slowRest) {
			t.Errorf("byte by byte: %v, %q, %v", slow, slowRest, slowErr)
		}
	})
}

type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

func TestSourceOf(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1":             "192.0.2.1",
		"::ffff:192.0.2.1":      "192.0.2.1",
		"2001:db8:1:2:3:4:5:6":  "2001:db8:1:2::",
		"fe80::1%eth0":          "fe80::",
		"2001:db8:1:2:ffff::99": "2001:db8:1:2::",
	} {
		if got := sourceOf(netip.MustParseAddr(in)).String(); got != want {
			t.Errorf("sourceOf(%s) = %s, want %s", in, got, want)
		}
	}
}
