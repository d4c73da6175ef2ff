package core

import (
	"bufio"
	"errors"
	"net"
	"os"
	"time"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// firstBytes is how much is read at once before it is known who comes.
const firstBytes = 2 << 10

// recognise says which protocol begins on br with the credentials of d; "" for
// a stranger. It consumes nothing, so that strangers get what a web server
// answers to all they have sent.
//
// SOCKS is taken at its word: credentials come after an answer (RFC 1928, 3),
// which is why a cell has to ask for it.
func recognise(br *bufio.Reader, d mesh.ServedDevice, w *ways, over mesh.Transport) (mesh.Protocol, error) {
	guess, err := clientproto.Sniff(br)
	if err != nil {
		return "", err
	}
	switch guess {
	case clientproto.GuessVLESS:
		if user, err := clientproto.PeekVLESS(br); err == nil && d.Verifiers.CheckVLESS(d.ID, user) && w.has(mesh.ProtocolVLESS, over) {
			return mesh.ProtocolVLESS, nil
		}
	case clientproto.GuessTrojan:
		if key, err := clientproto.PeekTrojan(br); err == nil && d.Verifiers.CheckTrojan(d.ID, key) && w.has(mesh.ProtocolTrojan, over) {
			return mesh.ProtocolTrojan, nil
		}
	case clientproto.GuessSOCKS:
		if w.has(mesh.ProtocolSOCKS, over) {
			return mesh.ProtocolSOCKS, nil
		}
	}
	return "", nil
}

// looked is a connection of which some bytes were looked at: they come first.
// It hides what is below from net/http, which speaks HTTP/2 without TLS of its
// own only then.
type looked struct {
	halfConn // the client's TLS
	first    *bufio.Reader
	until    time.Time // when what is read first has to be complete; zero: not looked for long
}

// halfConn is a connection of which one half can be closed.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// Read implements io.Reader.
func (c *looked) Read(p []byte) (int, error) {
	if c.first == nil {
		return c.halfConn.Read(p)
	}
	if n := c.first.Buffered(); n > 0 {
		return c.first.Read(p[:min(n, len(p))])
	}
	c.first = nil
	return c.halfConn.Read(p)
}

// SetReadDeadline implements net.Conn. net/http gives the whole time for a header
// when it begins, of which looking took a part: who is answered later by that
// would know what was looked for. It sets the first before it reads.
func (c *looked) SetReadDeadline(t time.Time) error {
	if !c.until.IsZero() {
		if t.After(c.until) {
			t = c.until
		}
		c.until = time.Time{}
	}
	return c.halfConn.SetReadDeadline(t)
}

// rest are bytes that were looked at and not read. They are not to be read again.
func (c *looked) rest() []byte {
	if c.first == nil {
		return nil
	}
	b, err := c.first.Peek(c.first.Buffered())
	if err != nil {
		return nil // there is no less than what is there
	}
	return b
}

// tookTooLong says whether err is that of a deadline of ours.
func tookTooLong(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
