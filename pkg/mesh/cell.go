package mesh

import "time"

// CellState says whether a cell's names are given to clients.
type CellState string

// Transitions: active ⇄ compromised, either → retired (final).
const (
	CellActive      CellState = "active"
	CellCompromised CellState = "compromised"
	CellRetired     CellState = "retired"
)

// CellCertificate says where the certificate that clients see comes from.
type CellCertificate string

const (
	// CertificatePrivate: a CA of this cell alone, name-constrained to its suffix.
	CertificatePrivate CellCertificate = "private"
	// CertificatePublic: a wildcard for the suffix from a public authority.
	CertificatePublic CellCertificate = "public"
)

// CertificateOrder says who asks the public authority for a cell's wildcard.
type CertificateOrder string

const (
	// OrderUpload: an operator fetches the cores' requests, has them signed, and
	// uploads the chains.
	OrderUpload CertificateOrder = "upload"
	// OrderACME: management orders by ACME (RFC 8555) with DNS-01.
	OrderACME CertificateOrder = "acme"
)

// GuestLimits bound guests from a compromised cell. Zero means unlimited.
type GuestLimits struct {
	// Devices is how many devices of each member are taken in.
	Devices int `json:"devices,omitzero"`
	// Connections is how many each may have open at once, where its own limit
	// is not lower.
	Connections int `json:"connections,omitzero"`
	// Traffic is how many bytes all devices of one member may move as guests,
	// in both directions together, since their cell was compromised: from the
	// beginning of that hour, since counts are of whole hours.
	Traffic int64 `json:"traffic,omitzero"`
}

// Cell is a group of cores under one server-name suffix.
type Cell struct {
	ID          CellID          `json:"id"`
	Name        string          `json:"name"`
	Suffix      ServerName      `json:"suffix"`
	State       CellState       `json:"state"`
	Fallback    []CellID        `json:"fallback,omitzero"`
	Certificate CellCertificate `json:"certificate"`
	CACert      string          `json:"caCert,omitzero"` // PEM, for CertificatePrivate
	CAKey       Sealed          `json:"caKey,omitzero"`
	// Order says how a public certificate comes about.
	Order CertificateOrder `json:"order,omitzero"`
	// Offers are the ways into its cores; none means DefaultOffers.
	Offers []Offer `json:"offers,omitzero"`
	// Paths are where the transports are found, the newest last.
	Paths []Paths `json:"paths,omitzero"`
	// Guests bounds what devices of another cell, for which this one is the
	// fallback, may use here.
	Guests GuestLimits `json:"guests,omitzero"`
	// ForwardClientAddress passes the client's address to the cell's cores.
	ForwardClientAddress bool `json:"forwardClientAddress,omitzero"`
	// Compromised is when it was last declared so.
	Compromised time.Time `json:"compromised,omitzero"`
	// Earlier is where its devices were guests until it was restored.
	Earlier []EarlierPlace `json:"earlier,omitzero"`
	Created time.Time      `json:"created"`
}
