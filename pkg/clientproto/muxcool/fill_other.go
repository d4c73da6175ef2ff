//go:build !unix

package muxcool

import "net"

// fill reads from c behind the first head bytes of a buffer, which is to be put
// back.
func fill(c net.Conn, head int) (*[]byte, int, error) { return fillWaiting(c, head) }
