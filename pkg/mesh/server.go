package mesh

import "time"

// Server is a management server, as all servers know it.
//
//	joining ──admitted, in sync──▶ member ──removed──▶ removed
type Server struct {
	ID   ServerID `json:"id"`
	Name string   `json:"name"`
	// Addresses are host:port of its mesh port.
	Addresses []string `json:"addresses,omitzero"`
	// Peer is where the other servers' etcd reaches its own, https://host:port.
	Peer string `json:"peer,omitzero"`
	// Gossip is host:port of its gossip.
	Gossip string `json:"gossip,omitzero"`
	// Member is the id of its etcd member, hexadecimal.
	Member string      `json:"member,omitzero"`
	State  ServerState `json:"state"`
	Joined time.Time   `json:"joined"`
}

// ServerState is where a management server is in its life.
type ServerState string

// Server states.
const (
	ServerJoining ServerState = "joining" // known, and its etcd has no vote yet
	ServerMember  ServerState = "member"
	ServerRemoved ServerState = "removed" // for good: it does not come back under this id
)
