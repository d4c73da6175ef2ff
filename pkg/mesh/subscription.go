package mesh

// SubscriptionSettings are how clients learn what to connect to.
type SubscriptionSettings struct {
	// Name is the host name of the subscription service, such as sub.example.net;
	// "" turns it off. It is reached through entries, as devices are.
	Name ServerName `json:"name,omitzero"`
	// Certificate says where that of Name comes from; "" means files.
	Certificate SubscriptionCertificate `json:"certificate,omitzero"`
	Title       string                  `json:"title,omitzero"` // shown by clients as the name of the profile
	SupportURL  string                  `json:"supportUrl,omitzero"`
	PageURL     string                  `json:"pageUrl,omitzero"` // of the operator; "" means the page of the device
	Announce    string                  `json:"announce,omitzero"`
	// UpdateInterval is how often clients should look; 0 means 12 hours.
	UpdateInterval Duration `json:"updateInterval,omitzero"`
	// Agents are rules of the operator's own, which go before the built-in ones.
	Agents []AgentRule `json:"agents,omitzero"`
}

// SubscriptionCertificate says where the certificate of the subscription
// service comes from.
type SubscriptionCertificate string

const (
	// SubscriptionFiles: files of each server, named in its configuration.
	SubscriptionFiles SubscriptionCertificate = "files"
	// SubscriptionACME: management orders it by ACME with DNS-01.
	SubscriptionACME SubscriptionCertificate = "acme"
)

// AgentRule says which format a client is served, by its User-Agent.
type AgentRule struct {
	// Match is found in the User-Agent, in whatever case.
	Match string `json:"match"`
	// From and Below bound the version that follows Match and a slash, such as
	// 1.12; "" does not.
	From   string `json:"from,omitzero"`
	Below  string `json:"below,omitzero"`
	Format string `json:"format"`
}

// LabelRotation replaces, on a schedule, the labels of devices that have a
// subscription link, by which their clients hear of it, and the paths of cells.
type LabelRotation struct {
	Every   Duration `json:"every,omitzero"`   // 0: never
	Overlap Duration `json:"overlap,omitzero"` // for which what was replaced works; 0 means 7 days
}
