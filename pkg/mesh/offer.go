package mesh

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Protocol is what a client speaks inside its TLS.
type Protocol string

// Protocols. HTTP stands for CONNECT and for requests in absolute form.
const (
	ProtocolVLESS  Protocol = "vless"
	ProtocolTrojan Protocol = "trojan"
	ProtocolHTTP   Protocol = "http"
	ProtocolSOCKS  Protocol = "socks"
)

// Transport is what carries the protocol inside the client's TLS.
type Transport string

// Transports.
const (
	TransportTCP  Transport = "tcp" // nothing in between
	TransportWS   Transport = "ws"  // WebSocket (RFC 6455), at the cell's path
	TransportGRPC Transport = "grpc"
)

// Offer is one way of clients into a core: "vless-ws" in text.
type Offer struct {
	Protocol  Protocol
	Transport Transport
}

// Offers are all there are, in the order in which clients should try them.
func Offers() []Offer {
	return []Offer{
		{ProtocolVLESS, TransportTCP}, {ProtocolTrojan, TransportTCP},
		{ProtocolVLESS, TransportWS}, {ProtocolTrojan, TransportWS},
		{ProtocolVLESS, TransportGRPC}, {ProtocolTrojan, TransportGRPC},
		{ProtocolHTTP, TransportTCP}, {ProtocolSOCKS, TransportTCP},
	}
}

// DefaultOffers are those of a cell that names none. SOCKS is not among them: a
// server must answer its greeting before it has seen any credentials (RFC 1928,
// 3), so that a stranger can tell a core from a web server.
func DefaultOffers() []Offer {
	return []Offer{
		{ProtocolVLESS, TransportTCP}, {ProtocolTrojan, TransportTCP},
		{ProtocolVLESS, TransportWS}, {ProtocolVLESS, TransportGRPC},
		{ProtocolHTTP, TransportTCP},
	}
}

func (o Offer) String() string { return string(o.Protocol) + "-" + string(o.Transport) }

// MarshalText prints the form that UnmarshalText reads.
func (o Offer) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads "vless-ws" and the like. It returns ErrInvalid.
func (o *Offer) UnmarshalText(b []byte) error {
	for _, known := range Offers() {
		if known.String() == string(b) {
			*o = known
			return nil
		}
	}
	var all []string
	for _, known := range Offers() {
		all = append(all, known.String())
	}
	return fmt.Errorf("mesh: offer %q: want one of %s: %w", Quotable(string(b)), strings.Join(all, ", "), ErrInvalid)
}

// Paths are where the transports of a cell are found. They are random, so that
// who does not know them finds a web server; two overlap while one is replaced.
type Paths struct {
	WebSocket string    `json:"webSocket"`      // begins with a slash
	GRPC      string    `json:"grpc"`           // service name
	Since     time.Time `json:"since,omitzero"` // zero: since the cell was made
	NotAfter  time.Time `json:"notAfter,omitzero"`
}

// NewPaths makes random ones.
func NewPaths() Paths { return Paths{WebSocket: "/" + NewLabel(), GRPC: NewLabel()} }

// PathsAt returns the paths that are valid at now, the newest last.
func (c Cell) PathsAt(now time.Time) []Paths {
	return slices.DeleteFunc(slices.Clone(c.Paths), func(p Paths) bool {
		return !p.NotAfter.IsZero() && !now.Before(p.NotAfter)
	})
}

// Offered returns what the cell's cores answer and its devices are told of.
func (c Cell) Offered() []Offer {
	if len(c.Offers) > 0 {
		return c.Offers
	}
	return DefaultOffers()
}
