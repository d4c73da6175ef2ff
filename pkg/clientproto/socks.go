package clientproto

import (
	"bufio"
	"net/netip"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// SOCKSReply is the outcome of a request (RFC 1928, 6).
type SOCKSReply byte

// Replies.
const (
	SOCKSOK          SOCKSReply = 0
	SOCKSFailed      SOCKSReply = 1
	SOCKSDenied      SOCKSReply = 2
	SOCKSUnreachable SOCKSReply = 4
	SOCKSRefused     SOCKSReply = 5
	SOCKSExpired     SOCKSReply = 6 // took too long
	SOCKSCommand     SOCKSReply = 7 // command not supported
)

const socksPassword = 2 // the method of RFC 1929

// ReadSOCKSGreeting reads the first message and says whether the client can show
// credentials.
//
//	version(1) methods(1) method(1)...
func ReadSOCKSGreeting(r *bufio.Reader) (password bool, err error) {
	b, err := take(r, 2, false)
	if err != nil {
		return false, err
	}
	if b[0] != socks5 {
		return false, invalid("socks: unknown version %d", b[0])
	}
	methods, err := take(r, int(b[1]), true)
	for _, m := range methods {
		password = password || m == socksPassword
	}
	return password, err
}

// AppendSOCKSMethod asks for credentials, or says that there is no other way.
func AppendSOCKSMethod(b []byte, password bool) []byte {
	if password {
		return append(b, socks5, socksPassword)
	}
	return append(b, socks5, 0xff)
}

// ReadSOCKSPassword reads credentials (RFC 1929).
//
//	version(1) length(1) user length(1) password
func ReadSOCKSPassword(r *bufio.Reader) (user string, password mesh.Secret, err error) {
	b, err := take(r, 2, false)
	if err != nil {
		return "", "", err
	}
	if b[0] != 1 {
		return "", "", invalid("socks: unknown version %d of credentials", b[0])
	}
	if b, err = take(r, int(b[1])+1, true); err != nil {
		return "", "", err
	}
	user, n := string(b[:len(b)-1]), int(b[len(b)-1])
	if b, err = take(r, n, true); err != nil {
		return "", "", err
	}
	return user, mesh.Secret(b), nil
}

// AppendSOCKSVerdict answers credentials.
func AppendSOCKSVerdict(b []byte, ok bool) []byte {
	if ok {
		return append(b, 1, 0)
	}
	return append(b, 1, 1)
}

// ReadSOCKSRequest reads a request to connect. Other commands are ErrInvalid,
// to be answered with SOCKSCommand.
//
//	version(1) command(1) reserved(1) port last destination
func ReadSOCKSRequest(r *bufio.Reader) (Destination, error) {
	b, err := take(r, 3, false)
	if err != nil {
		return Destination{}, err
	}
	version, command := b[0], b[1]
	switch {
	case version != socks5:
		return Destination{}, invalid("socks: unknown version %d of a request", version)
	case command != 1:
		return Destination{}, invalid("socks: command %d is not supported", command)
	}
	return PortLast.Read(r)
}

// AppendSOCKSReply answers a request. The address that was bound is nobody's
// business, so it is none.
func AppendSOCKSReply(b []byte, code SOCKSReply) []byte {
	b = append(b, socks5, byte(code), 0)
	return PortLast.Append(b, Destination{Addr: netip.IPv4Unspecified()})
}
