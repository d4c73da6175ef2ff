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
	// ForwardClientAddress passes the client's address to the cell's cores.
	ForwardClientAddress bool      `json:"forwardClientAddress,omitzero"`
	Created              time.Time `json:"created"`
}
