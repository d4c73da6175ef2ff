package clientproto

import (
	"bufio"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Command says what a client wants of its connection.
type Command string

// Commands.
const (
	CommandTCP Command = "tcp"
	CommandUDP Command = "udp" // datagrams in the framing of the protocol
	CommandMux Command = "mux" // mux.cool frames; VLESS only
)

// Request is what follows the credentials. To is not set with CommandMux.
type Request struct {
	Command Command
	To      Destination
}

// PeekVLESS returns the user id of a connection that Sniff took for VLESS.
func PeekVLESS(r *bufio.Reader) (mesh.UserID, error) {
	b, err := r.Peek(vlessIntro)
	if err != nil {
		return mesh.UserID{}, err
	}
	return mesh.UserID(b[1:]), nil
}

// ReadVLESS consumes a request of version 0, user id included. Requests with
// addons are refused: the one there is, the flow of XTLS, changes what follows.
//
//	version(1) user(16) addons length(1) command(1) [port first destination]
func ReadVLESS(r *bufio.Reader) (Request, error) {
	b, err := take(r, vlessIntro+2, false)
	if err != nil {
		return Request{}, err
	}
	version, addons, command := b[0], b[vlessIntro], b[vlessIntro+1]
	switch {
	case version != 0:
		return Request{}, invalid("vless: unknown version %d", version)
	case addons != 0:
		return Request{}, invalid("vless: a flow is not supported")
	}
	q := Request{Command: map[byte]Command{1: CommandTCP, 2: CommandUDP, 3: CommandMux}[command]}
	switch q.Command {
	case "":
		return Request{}, invalid("vless: unknown command %d", command)
	case CommandMux:
		return q, nil
	}
	q.To, err = PortFirst.Read(r)
	return q, err
}

// AppendVLESSReply writes what must come before the first byte to the client:
// version(1) addons length(1).
func AppendVLESSReply(b []byte) []byte { return append(b, 0, 0) }

// PeekTrojan returns the key of a connection that Sniff took for Trojan.
func PeekTrojan(r *bufio.Reader) (string, error) {
	b, err := r.Peek(trojanKey)
	return string(b), err
}

// ReadTrojan consumes a request, key included. There is no reply to it.
//
//	key(56) CR LF command(1) port last destination CR LF
func ReadTrojan(r *bufio.Reader) (Request, error) {
	b, err := take(r, trojanIntro+1, false)
	if err != nil {
		return Request{}, err
	}
	if string(b[trojanKey:trojanIntro]) != "\r\n" {
		return Request{}, invalid("trojan: no line end after the key")
	}
	command := b[trojanIntro]
	q := Request{Command: map[byte]Command{1: CommandTCP, 3: CommandUDP}[command]}
	if q.Command == "" {
		return Request{}, invalid("trojan: unknown command %d", command)
	}
	if q.To, err = PortLast.Read(r); err != nil {
		return Request{}, err
	}
	return q, lineEnd(r, "trojan: no line end after the destination")
}

func lineEnd(r *bufio.Reader, fault string) error {
	b, err := take(r, 2, true)
	if err == nil && string(b) != "\r\n" {
		err = invalid("%s", fault)
	}
	return err
}
