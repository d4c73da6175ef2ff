package core

import (
	"net"
	"time"

	"github.com/meshctl/meshctl/pkg/relay"
)

// linger is how long a destination may take over what a client sent that is gone:
// a WebSocket and a call of gRPC end in both directions at once.
const linger = 10 * time.Second

// A carrier is what a client's protocol comes in: its TLS itself, a WebSocket or
// one call of gRPC. It is closed by whoever opened it.
type carrier = relay.Half

// replied is a carrier to which something must be said before the first byte of
// a destination. Both go out as one, as long as there is such a byte.
type replied struct {
	carrier
	reply []byte
}

// Write implements io.Writer.
func (c *replied) Write(p []byte) (int, error) {
	if c.reply == nil {
		return c.carrier.Write(p)
	}
	head := len(c.reply)
	n, err := c.carrier.Write(append(c.reply, p...))
	c.reply = nil
	return max(n-head, 0), err
}

// CloseWrite says what was to be said, and ends this direction.
func (c *replied) CloseWrite() error {
	if c.reply != nil {
		if _, err := c.Write(nil); err != nil {
			return err
		}
	}
	return c.carrier.CloseWrite()
}

// whole is a replied carrier that can be reset below its TLS.
type whole struct {
	*replied
	below net.Conn
}

// NetConn lets relay.Join reset the stream itself.
func (c whole) NetConn() net.Conn { return c.below }

// reply makes sure that text reaches the client first.
func reply(c carrier, text []byte) carrier {
	r := &replied{c, text}
	if w, ok := c.(interface{ NetConn() net.Conn }); ok {
		return whole{r, w.NetConn()}
	}
	return r
}
