package clientproto

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// Guess is what the first bytes of a connection look like. Only credentials
// prove it.
type Guess string

// Guesses.
const (
	GuessHTTP1  Guess = "http/1" // and whatever is nothing else
	GuessHTTP2  Guess = "http/2"
	GuessVLESS  Guess = "vless"
	GuessTrojan Guess = "trojan"
	GuessSOCKS  Guess = "socks"

	undecided Guess = ""
)

const (
	vlessIntro  = 1 + 16 // version, user id
	trojanKey   = 56     // SHA-224 in hexadecimal digits
	trojanIntro = 56 + 2 // with CR LF
	http2Intro  = "PRI * HTTP/2.0"
	socks5      = 5
)

// Sniff reads no more than it takes to guess, and consumes nothing. It waits for
// more bytes only where a web server would wait for the end of a line, so that
// who sends garbage in pieces learns nothing from when he is answered. When the
// reader ends in between, what came is HTTP. When it fails, the error says why,
// so that the caller can tell who took too long.
func Sniff(r *bufio.Reader) (Guess, error) {
	for {
		n := r.Buffered()
		if n > 0 {
			b, err := r.Peek(n)
			if g := guess(b); g != undecided || err != nil {
				return g, err
			}
		}
		if _, err := r.Peek(n + 1); err != nil && r.Buffered() == n {
			if n > 0 && errors.Is(err, io.EOF) {
				err = nil
			}
			return GuessHTTP1, err
		}
	}
}

func guess(b []byte) Guess {
	switch {
	case b[0] == socks5:
		return GuessSOCKS
	case b[0] == 0:
		return guessVLESS(b)
	case isHex(b[0]):
		return guessTrojan(b)
	case bytes.HasPrefix(b, []byte(http2Intro)):
		return GuessHTTP2
	case strings.HasPrefix(http2Intro, string(b)):
		return undecided
	}
	return GuessHTTP1
}

// guessVLESS waits for the user id, but not beyond the end of what a web server
// takes for a line.
func guessVLESS(b []byte) Guess {
	switch {
	case len(b) >= vlessIntro:
		return GuessVLESS
	case bytes.IndexByte(b, '\n') >= 0:
		return GuessHTTP1
	}
	return undecided
}

func guessTrojan(b []byte) Guess {
	for i, c := range b[:min(len(b), trojanIntro)] {
		if i < trojanKey && !isHex(c) || i >= trojanKey && c != "\r\n"[i-trojanKey] {
			return GuessHTTP1
		}
	}
	if len(b) < trojanIntro {
		return undecided
	}
	return GuessTrojan
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }
