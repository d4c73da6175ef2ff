// Package clientprototest is the client's side of pkg/clientproto, for tests and benchmarks.
package clientprototest

import (
	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// VLESS is what a client sends first.
func VLESS(user mesh.UserID, q clientproto.Request) []byte {
	b := append([]byte{0}, user[:]...)
	b = append(b, 0, map[clientproto.Command]byte{clientproto.CommandTCP: 1, clientproto.CommandUDP: 2, clientproto.CommandMux: 3}[q.Command])
	if q.Command == clientproto.CommandMux {
		return b
	}
	return clientproto.PortFirst.Append(b, q.To)
}

// Trojan is what a client sends first.
func Trojan(key string, q clientproto.Request) []byte {
	command := map[clientproto.Command]byte{clientproto.CommandTCP: 1, clientproto.CommandUDP: 3}[q.Command]
	b := append([]byte(key+"\r\n"), command)
	return append(clientproto.PortLast.Append(b, q.To), '\r', '\n')
}

// SOCKS is what a client may send without waiting for answers: greeting,
// credentials and request to connect.
func SOCKS(user string, password mesh.Secret, to clientproto.Destination) []byte {
	b := append([]byte{5, 1, 2, 1, byte(len(user))}, user...)
	b = append(append(b, byte(len(password))), password.Reveal()...)
	return clientproto.PortLast.Append(append(b, 5, 1, 0), to)
}
