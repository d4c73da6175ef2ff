package clientproto

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	key  = "0123456789abcdef0123456789abcdef0123456789abcdef01234567"
	user = "0123456789abcdef"
)

func TestTheFirstBytesTellWhatAConnectionIs(t *testing.T) {
	for first, want := range map[string]Guess{
		"GET / HTTP/1.1\r\n":                  GuessHTTP1,
		"CONNECT a:443 HTTP/1.1\r\n":          GuessHTTP1,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":    GuessHTTP2,
		"PRI * HTTP/1.1\r\n":                  GuessHTTP1,
		"PR":                                  GuessHTTP1, // and the end
		"\x00" + user:                         GuessVLESS,
		"\x00" + user + "\x00\x01":            GuessVLESS,
		"\x00\r\n\r\n":                        GuessHTTP1,
		"\x00" + user[1:]:                     GuessHTTP1, // and the end
		key + "\r\n\x01":                      GuessTrojan,
		key + "\r\n":                          GuessTrojan,
		key + "\n\n":                          GuessHTTP1,
		key + "0\r\n":                         GuessHTTP1,
		strings.ToUpper(key) + "\r\n":         GuessHTTP1,
		key:                                   GuessHTTP1, // and the end
		"delete / HTTP/1.1\r\n":               GuessHTTP1,
		"\x05\x01\x02":                        GuessSOCKS,
		"\x04\x01":                            GuessHTTP1,
		"\x16\x03\x01":                        GuessHTTP1,
		"\xff" + strings.Repeat("\x00", 5000): GuessHTTP1,
	} {
		r := bufio.NewReader(iotest.OneByteReader(strings.NewReader(first)))
		if got, err := Sniff(r); got != want || err != nil {
			t.Errorf("%.20q in pieces: %v, %v; want %v", first, got, err, want)
		}
		if all, err := io.ReadAll(r); string(all) != first || err != nil {
			t.Errorf("%.20q: %d bytes are left, %v", first, len(all), err)
		}
		if want == GuessVLESS || strings.HasPrefix(first, "\x00") && len(first) < 17 {
			continue
		}
		if got, err := Sniff(bufio.NewReader(strings.NewReader(first))); got != want || err != nil {
			t.Errorf("%.20q at once: %v, %v; want %v", first, got, err, want)
		}
	}
}

// A user id may hold a line end. Clients send it in one piece.
func TestAUserIDInOnePieceMayHoldALineEnd(t *testing.T) {
	got, err := Sniff(bufio.NewReader(strings.NewReader("\x00\n" + user[1:])))
	if got != GuessVLESS || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// A caller must be able to tell who took too long.
func TestWhyNoMoreCameIsSaid(t *testing.T) {
	broken := errors.New("broken")
	for _, came := range []string{"", "\x00", "\x00" + user[1:], key, "PRI"} {
		for _, fault := range []error{io.EOF, broken} {
			want := fault
			if came != "" && fault == io.EOF {
				want = nil // it is a line that was cut
			}
			r := bufio.NewReader(io.MultiReader(strings.NewReader(came), iotest.ErrReader(fault)))
			if got, err := Sniff(r); got != GuessHTTP1 || !errors.Is(err, want) {
				t.Errorf("after %q: %v, %v; want %v", came, got, err, want)
			}
		}
	}
}

// Whoever sends a line must be answered as soon as a web server would.
func TestNoBytesAreAwaitedBeyondALineEnd(t *testing.T) {
	for _, line := range []string{"\x00\r\n", "\x00ab\n", "PRI\n", "ab\r\n", key[:20] + "\r\n", key + "\r\n", "PRI * HTTP/2.0\r\n"} {
		never := make(chan struct{})
		r, w := io.Pipe()
		go func() { defer close(never); _, _ = io.WriteString(w, line) }()
		if _, err := Sniff(bufio.NewReader(r)); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		<-never
	}
}
