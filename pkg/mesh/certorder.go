package mesh

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// CertOrder is a certificate for what clients see, from a public authority: what
// was asked for, what came of it, and when it is tried again.
type CertOrder struct {
	// Request is what is to be certified now, a PKCS #10 request in DER.
	Request []byte    `json:"request,omitzero"`
	Asked   time.Time `json:"asked,omitzero"`
	// Chain is the newest certificate, DER, leaf first. It may be of an earlier
	// request than Request, which is then still open.
	Chain    [][]byte         `json:"chain,omitzero"`
	By       CertificateOrder `json:"by,omitzero"` // how Chain came about
	Issued   time.Time        `json:"issued,omitzero"`
	NotAfter time.Time        `json:"notAfter,omitzero"` // of the leaf
	// Failures are those since the last success; Reason is the last one's.
	Failures int       `json:"failures,omitzero"`
	Failed   time.Time `json:"failed,omitzero"`
	Reason   string    `json:"reason,omitzero"`
	// Next is when it is ordered again at the earliest; zero: at once.
	Next time.Time `json:"next,omitzero"`
}

// CellCert is the certificate of one core of a cell with public certificates.
// Its key never leaves the core.
type CellCert struct {
	Core   CoreID     `json:"core"`
	Cell   CellID     `json:"cell"`
	Suffix ServerName `json:"suffix"` // it is for *.Suffix
	Order  CertOrder  `json:"order"`
}

// SubscriptionCert is the certificate of the subscription service when
// management orders it. All servers share it.
type SubscriptionCert struct {
	Name  ServerName `json:"name"`
	Order CertOrder  `json:"order"`
	// Pending is the key of Order.Request, Key that of Order.Chain, both PEM.
	Pending Sealed `json:"pending,omitzero"`
	Key     Sealed `json:"key,omitzero"`
}

// ACMESettings say how management orders certificates (RFC 8555): one object,
// changed by owners.
type ACMESettings struct {
	Directory string `json:"directory"`         // https URL
	Roots     string `json:"roots,omitzero"`    // PEM, whom to trust for Directory; "": the system's
	Contact   string `json:"contact,omitzero"`  // e-mail address
	External  string `json:"external,omitzero"` // key id of an account that exists elsewhere (7.3.4)
	// ExternalKey is the MAC key of External, base64url.
	ExternalKey Sealed `json:"externalKey,omitzero"`
	// AccountKey is the key of the account, PEM. Whoever has it may order in the
	// name of the account.
	AccountKey Sealed      `json:"accountKey"`
	Agreed     time.Time   `json:"agreed"` // to the terms of the authority
	DNS        DNSProvider `json:"dns"`
	// AllowMissingCAA orders although no CAA record keeps others from it.
	AllowMissingCAA bool `json:"allowMissingCaa,omitzero"`
}

// ACMEState is what is known of the account, written by the server that orders.
type ACMEState struct {
	Directory string `json:"directory"` // that the rest is of
	Account   string `json:"account,omitzero"`
	// Identities are the names by which the authority finds itself in CAA records.
	Identities []string  `json:"identities,omitzero"`
	Failures   int       `json:"failures,omitzero"`
	Failed     time.Time `json:"failed,omitzero"`
	Reason     string    `json:"reason,omitzero"`
	Next       time.Time `json:"next,omitzero"`
}

// DNSKind is how records are written.
type DNSKind string

// Kinds of DNS providers.
const (
	DNSUpdate     DNSKind = "rfc2136"    // dynamic updates, signed by TSIG
	DNSCloudflare DNSKind = "cloudflare" // its API, with a token for one zone
)

// DNSProvider is where the records that prove a name are written.
type DNSProvider struct {
	Kind DNSKind `json:"kind"`
	// Server is host:port that takes updates; for Cloudflare the URL of its API,
	// "" being the usual one.
	Server string `json:"server,omitzero"`
	Zone   string `json:"zone,omitzero"` // "": found by asking
	// KeyName and Algorithm name the TSIG key, such as hmac-sha256.
	KeyName   string `json:"keyName,omitzero"`
	Algorithm string `json:"algorithm,omitzero"`
	// Credential is the TSIG secret in base64, or the token.
	Credential Sealed `json:"credential"`
	// Resolvers are host:port that are asked instead of the system's.
	Resolvers []string `json:"resolvers,omitzero"`
}

// TSIGAlgorithms are those that updates may be signed with.
func TSIGAlgorithms() []string {
	return []string{"hmac-sha256", "hmac-sha384", "hmac-sha512", "hmac-sha224"}
}

// Validate checks form, not reach. It returns ErrInvalid.
func (s ACMESettings) Validate() error {
	u, err := url.Parse(s.Directory)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return fmt.Errorf("mesh: ACME directory %q: want an https URL: %w", Quotable(s.Directory), ErrInvalid)
	}
	if s.Contact != "" && (!strings.Contains(s.Contact, "@") || strings.ContainsAny(s.Contact, " ,:<>\r\n")) {
		return fmt.Errorf("mesh: ACME contact %q: want one e-mail address: %w", Quotable(s.Contact), ErrInvalid)
	}
	if (s.External == "") != (s.ExternalKey == "") {
		return fmt.Errorf("mesh: ACME external account: want both its key id and its key: %w", ErrInvalid)
	}
	return s.DNS.Validate()
}

// Validate checks form, not reach. It returns ErrInvalid.
func (p DNSProvider) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("mesh: DNS provider: "+format+": %w", append(args, ErrInvalid)...)
	}
	for _, r := range p.Resolvers {
		if _, _, err := net.SplitHostPort(r); err != nil {
			return bad("resolver %q: want host:port", Quotable(r))
		}
	}
	if p.Zone != "" {
		if _, err := ParseServerName(p.Zone); err != nil {
			return bad("zone %q: want a name such as example.net", Quotable(p.Zone))
		}
	}
	switch p.Kind {
	case DNSUpdate:
		if _, _, err := net.SplitHostPort(p.Server); err != nil {
			return bad("server %q: want host:port of the server that takes updates", Quotable(p.Server))
		}
		if p.KeyName == "" {
			return bad("want the name of the TSIG key")
		}
		if slices.Contains(TSIGAlgorithms(), p.Algorithm) {
			return nil
		}
		return bad("algorithm %q: want one of %s", Quotable(p.Algorithm), strings.Join(TSIGAlgorithms(), ", "))
	case DNSCloudflare:
		if u, err := url.Parse(p.Server); p.Server != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "") {
			return bad("server %q: want the https URL of the API", Quotable(p.Server))
		}
		return nil
	}
	return bad("kind %q: want %s or %s", Quotable(string(p.Kind)), DNSUpdate, DNSCloudflare)
}
