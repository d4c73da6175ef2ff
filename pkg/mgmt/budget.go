package mgmt

import (
	"fmt"
	"net"
	"sync/atomic"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// strangerBytes is how much is read from somebody who has not been identified:
// the handshake, and when it is an enrolling node its one request.
const strangerBytes = 64 << 10

// budgetConn ends reading after so many bytes, until the limit is lifted.
type budgetConn struct {
	net.Conn
	lifted atomic.Bool
	left   int // only the one reader touches it
}

func (c *budgetConn) Read(b []byte) (int, error) {
	if c.lifted.Load() {
		return c.Conn.Read(b)
	}
	if c.left <= 0 {
		return 0, fmt.Errorf("mgmt: read from a stranger: more than %d bytes: %w", strangerBytes, mesh.ErrDenied)
	}
	if len(b) > c.left {
		b = b[:c.left]
	}
	n, err := c.Conn.Read(b)
	c.left -= n
	return n, err
}
