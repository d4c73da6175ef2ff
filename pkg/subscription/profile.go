package subscription

import (
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Profile is all that the documents of one device are made of. Texts may hold
// anything: each format escapes what it has to.
type Profile struct {
	Title      string // shown by clients as the name of the profile; "" means meshctl
	Announce   string // shown by clients that can, "" for none
	SupportURL string
	PageURL    string        // of the page for people
	Interval   time.Duration // between two looks of a client; 0 means 12 hours

	Member, Device string // names, for people
	Standing       mesh.Standing

	Up, Down int64     // bytes used so far
	Limit    int64     // of Up and Down together; 0 means none
	Expires  time.Time // zero: never

	// AsOf is when the state was read; Stale says that it may be older than it
	// should be, since the server has lost contact with the others.
	AsOf  time.Time
	Stale bool

	// Nodes are the ways in, the best first.
	Nodes []Node
	// Hidden are nodes that no format is to have, and why.
	Hidden []Left
	// TrustsCA says that who asks has installed the authorities of private cells
	// by hand, so that formats which cannot carry them may name such cells.
	TrustsCA bool
}

// Guest says whether the device is served elsewhere, since its own cell is
// compromised.
func (p Profile) Guest() bool {
	return p.Standing == mesh.StandingOK && slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.Guest })
}

// Node is one way into a core: an address, the name to ask there for, and an offer.
type Node struct {
	Name  string // shown to people; formats make it unique
	Cell  string
	Guest bool // the cell is not the device's own, which is compromised

	Host       string // of the entry: a name, an IPv4 or an IPv6 address without brackets
	Port       uint16
	ServerName mesh.ServerName
	HiddenHost mesh.ServerName // answers a browser with 407

	Offer   mesh.Offer
	Path    string // of a WebSocket
	Service string // of gRPC

	User     string // of HTTP and SOCKS: the device's id
	UUID     mesh.UserID
	Password mesh.Secret

	CA string // PEM of a private cell's authority; "" means a public certificate
}

// Left is a node that a document does not have, and why.
type Left struct {
	Name, Cell, Reason string
}

// Body is a finished document.
type Body struct {
	ContentType string
	Data        []byte
	Left        []Left // nodes of the profile that the format cannot carry
}
