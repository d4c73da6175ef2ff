package admin

import (
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// CellRequestsRequest asks for the certificates of a cell's cores; of one core
// when Core is set.
type CellRequestsRequest struct {
	Ref  string `json:"ref"`
	Core string `json:"core,omitzero"`
}

// CellRequestView is what a core asked to have certified, and its certificate.
type CellRequestView struct {
	Core   mesh.CoreID     `json:"core"`
	Name   string          `json:"name"`
	Suffix mesh.ServerName `json:"suffix"`
	CSR    string          `json:"csr"`           // PEM
	Open   bool            `json:"open,omitzero"` // it waits for its certificate
	Asked  time.Time       `json:"asked"`
	CertLine
}

// CertLine is how a certificate from a public authority goes.
type CertLine struct {
	By       mesh.CertificateOrder `json:"by,omitzero"`
	Issued   time.Time             `json:"issued,omitzero"`
	NotAfter time.Time             `json:"notAfter,omitzero"`
	Failures int                   `json:"failures,omitzero"`
	Reason   string                `json:"reason,omitzero"`
	Next     time.Time             `json:"next,omitzero"` // not tried again before
}

// CellCertifyRequest brings chains, each a PEM file with the leaf first.
type CellCertifyRequest struct {
	Ref    string   `json:"ref"`
	Chains []string `json:"chains"`
}

// CellCertified are the cores that a chain was taken for.
type CellCertified struct {
	Items []CellCertifiedLine `json:"items"`
}

// CellCertifiedLine is one of them.
type CellCertifiedLine struct {
	Core     mesh.CoreID `json:"core"`
	Name     string      `json:"name"`
	NotAfter time.Time   `json:"notAfter"`
	Warning  string      `json:"warning,omitzero"`
}

// ACMEView is how certificates are ordered, and how that goes.
type ACMEView struct {
	// Settings are without secrets; nil: nothing is ordered.
	Settings *ACMESettingsView `json:"settings,omitzero"`
	State    mesh.ACMEState    `json:"state"`
	Names    []ACMEName        `json:"names"`
	// Entries are host:port that clients dial, to which the names should lead.
	Entries []string `json:"entries"`
}

// ACMESettingsView is mesh.ACMESettings as shown.
type ACMESettingsView struct {
	Directory       string       `json:"directory"`
	Roots           bool         `json:"roots,omitzero"` // its own
	Contact         string       `json:"contact,omitzero"`
	External        string       `json:"external,omitzero"`
	Agreed          time.Time    `json:"agreed"`
	Provider        mesh.DNSKind `json:"provider"`
	Server          string       `json:"server,omitzero"`
	Zone            string       `json:"zone,omitzero"`
	KeyName         string       `json:"keyName,omitzero"`
	Algorithm       string       `json:"algorithm,omitzero"`
	Resolvers       []string     `json:"resolvers,omitzero"`
	AllowMissingCAA bool         `json:"allowMissingCaa,omitzero"`
}

// ACMEName is a name that clients see a certificate for, or of whose wildcard.
type ACMEName struct {
	Name string `json:"name"`
	What string `json:"what"` // "subscription", or "cell NAME"
	// Public: a public authority certifies it. Ordered: we ask for that.
	Public  bool       `json:"public,omitzero"`
	Ordered bool       `json:"ordered,omitzero"`
	Certs   []CertLine `json:"certs,omitzero"` // of each core, or of the service
}

// ACMESetRequest changes what is not nil. Directory begins with another account.
type ACMESetRequest struct {
	Directory       *string       `json:"directory,omitempty"`
	Roots           *string       `json:"roots,omitempty"` // PEM
	Contact         *string       `json:"contact,omitempty"`
	External        *string       `json:"external,omitempty"`
	ExternalKey     *string       `json:"externalKey,omitempty"`
	NewAccount      bool          `json:"newAccount,omitzero"`
	Agree           bool          `json:"agree,omitzero"` // to the authority's terms
	Provider        *mesh.DNSKind `json:"provider,omitempty"`
	Server          *string       `json:"server,omitempty"`
	Zone            *string       `json:"zone,omitempty"`
	KeyName         *string       `json:"keyName,omitempty"`
	Algorithm       *string       `json:"algorithm,omitempty"`
	Credential      *string       `json:"credential,omitempty"`
	Resolvers       *[]string     `json:"resolvers,omitempty"`
	AllowMissingCAA *bool         `json:"allowMissingCaa,omitempty"`
}

// ACMEOrderRequest has what waits tried at once: the certificates of one cell,
// or with "" everything.
type ACMEOrderRequest struct {
	Ref string `json:"ref,omitzero"`
}
