package admin

import (
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// None is an empty message.
type None struct{}

// Ref names one object by id or by label.
type Ref struct {
	Ref string `json:"ref"`
}

// Page asks for part of a list. Limit 0 is the server's default.
type Page struct {
	Limit int    `json:"limit,omitzero"`
	After string `json:"after,omitzero"` // the last id of the page before
}

// List is part of a list; Next is "" at its end.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitzero"`
}

// MemberAddRequest makes a member.
type MemberAddRequest struct {
	Name string `json:"name"`
	Note string `json:"note,omitzero"`
}

// MemberSetRequest changes what is not nil.
type MemberSetRequest struct {
	Ref   string            `json:"ref"`
	Name  *string           `json:"name,omitzero"`
	Note  *string           `json:"note,omitzero"`
	State *mesh.MemberState `json:"state,omitzero"`
	// DeviceLimit is how many devices the member may have when they add them
	// themselves; -1: as many as the configuration says.
	DeviceLimit *int `json:"deviceLimit,omitempty"`
}

// MemberView is a member as shown.
type MemberView struct {
	mesh.Member
	Devices int `json:"devices"`
	Cores   int `json:"cores"`
	// DeviceList is there where one member is shown.
	DeviceList []DeviceView `json:"deviceList,omitzero"`
}

// DeviceAddRequest makes a device. Exactly one of Cell and Core is set.
type DeviceAddRequest struct {
	Member string      `json:"member"`
	Name   string      `json:"name"`
	Cell   string      `json:"cell,omitzero"`
	Core   string      `json:"core,omitzero"`
	Limits mesh.Limits `json:"limits,omitzero"`
}

// DeviceSetRequest changes what is not nil. Cell or Core moves the device.
type DeviceSetRequest struct {
	Ref    string            `json:"ref"`
	Name   *string           `json:"name,omitzero"`
	State  *mesh.DeviceState `json:"state,omitzero"`
	Limits *mesh.Limits      `json:"limits,omitzero"` // all of them
	Cell   *string           `json:"cell,omitzero"`
	Core   *string           `json:"core,omitzero"`
	// One limit each, after Limits; zero takes the limit away. (omitzero would
	// leave out a pointer to the zero time.)
	Connections *int       `json:"connections,omitempty"`
	Traffic     *int64     `json:"traffic,omitempty"`
	Expires     *time.Time `json:"expires,omitempty"`
}

// DeviceListRequest filters by member and cell when set.
type DeviceListRequest struct {
	Page
	Member string `json:"member,omitzero"`
	Cell   string `json:"cell,omitzero"`
}

// DeviceView is a device as shown: without secret and verifiers.
type DeviceView struct {
	ID    mesh.DeviceID    `json:"id"`
	Name  string           `json:"name"`
	State mesh.DeviceState `json:"state"`
	// Standing is what its client is told; only ok is served.
	Standing   mesh.Standing `json:"standing"`
	Member     mesh.MemberID `json:"member"`
	MemberName string        `json:"memberName"`
	Cell       mesh.CellID   `json:"cell"`
	CellName   string        `json:"cellName"`
	Core       mesh.CoreID   `json:"core,omitzero"`
	CoreName   string        `json:"coreName,omitzero"`
	// Host is the cell that has taken it in as a guest, since its own is not
	// active.
	Host        mesh.CellID       `json:"host,omitzero"`
	HostName    string            `json:"hostName,omitzero"`
	ServerNames []mesh.ServerName `json:"serverNames"`
	Limits      mesh.Limits       `json:"limits,omitzero"`
	// Used is what it has moved since it was made, as far as cores have reported
	// it and a minute has passed since; LastUsed is the hour in which it last did.
	Used     mesh.Traffic `json:"used,omitzero"`
	LastUsed time.Time    `json:"lastUsed,omitzero"`
	// Counted is how much of Used counts against the limit, in bytes; all of it
	// unless it was counted anew at Reset.
	Counted int64     `json:"counted"`
	Reset   time.Time `json:"trafficReset,omitzero"`
	// Linked is when its subscription link was made; zero: it has none.
	Linked time.Time `json:"linked,omitzero"`
	// Replaced is when the last of the names that were replaced ends.
	Replaced time.Time `json:"replacedNamesEnd,omitzero"`
	// Earlier are the cells in which it was served until it was moved, or until its
	// own was restored. They go on serving it, but clients are not given their names.
	Earlier []EarlierPlace `json:"earlierPlaces,omitzero"`
	// Via are the cores its routes name now, in order; empty says why in Waiting.
	Via     []string  `json:"via"`
	Waiting string    `json:"waiting,omitzero"`
	Created time.Time `json:"created"`
}

// EarlierPlace is a cell that goes on serving a device until then.
type EarlierPlace struct {
	Cell     mesh.CellID `json:"cell"`
	CellName string      `json:"cellName"`
	Until    time.Time   `json:"until"`
}

// DeviceLink is everything one client needs. It contains the device's secret.
type DeviceLink struct {
	Device     mesh.DeviceID   `json:"device"`
	ServerName mesh.ServerName `json:"serverName"`
	User       string          `json:"user"`
	Secret     string          `json:"secret"`
	CA         string          `json:"ca,omitzero"` // PEM; empty with a public certificate
	HiddenHost mesh.ServerName `json:"hiddenHost"`
	Entries    []string        `json:"entries"` // host:port that clients may dial, as configured
}

// CellAddRequest makes a cell.
type CellAddRequest struct {
	Name                 string               `json:"name"`
	Suffix               string               `json:"suffix"`
	Certificate          mesh.CellCertificate `json:"certificate,omitzero"` // default private
	Fallback             []string             `json:"fallback,omitzero"`
	ForwardClientAddress bool                 `json:"forwardClientAddress,omitzero"`
	CellOptions
}

// CellSetRequest changes what is not nil.
type CellSetRequest struct {
	Ref                  string          `json:"ref"`
	Name                 *string         `json:"name,omitzero"`
	State                *mesh.CellState `json:"state,omitzero"`
	Fallback             *[]string       `json:"fallback,omitzero"`
	ForwardClientAddress *bool           `json:"forwardClientAddress,omitzero"`
	CellOptions
}

// CellView is a cell as shown: without its CA's key.
type CellView struct {
	ID                   mesh.CellID          `json:"id"`
	Name                 string               `json:"name"`
	Suffix               mesh.ServerName      `json:"suffix"`
	State                mesh.CellState       `json:"state"`
	Certificate          mesh.CellCertificate `json:"certificate"`
	Fallback             []mesh.CellID        `json:"fallback,omitzero"`
	ForwardClientAddress bool                 `json:"forwardClientAddress"`
	// Order says who asks for a public certificate.
	Order mesh.CertificateOrder `json:"order,omitzero"`
	// Offers are the ways into its cores, those it has by default included.
	Offers []mesh.Offer     `json:"offers"`
	Guests mesh.GuestLimits `json:"guests,omitzero"`
	// Replaced is when the last of the paths that were replaced ends.
	Replaced time.Time `json:"replacedPathsEnd,omitzero"`
	// Compromised is when it was last declared so.
	Compromised time.Time `json:"compromised,omitzero"`
	// Unreachable says that clients do not get into it although its cores phone
	// home, with the evidence; nil: nobody knows of that.
	Unreachable *mesh.CellWatch `json:"unreachable,omitzero"`
	// Reach is how connections go through each entry that tried of late; in CellGet
	// alone.
	Reach      []CellReach `json:"reach,omitzero"`
	Cores      int         `json:"cores"`
	CoresReady int         `json:"coresReady"`
	Devices    int         `json:"devices"`
	Created    time.Time   `json:"created"`
}

// CellCA is the anchor of a private cell.
type CellCA struct {
	Cell mesh.CellID `json:"cell"`
	PEM  string      `json:"pem"`
}

// CoreView is a core with what is known of it now.
type CoreView struct {
	mesh.Core
	MemberName string           `json:"memberName"`
	CellName   string           `json:"cellName"`
	Status     *mesh.NodeStatus `json:"status,omitzero"`
	CertEnds   time.Time        `json:"certificateEnds,omitzero"`
	Used       mesh.Traffic     `json:"used,omitzero"` // what was moved through it, see DeviceView
}

// CoreSetRequest changes what is not nil.
type CoreSetRequest struct {
	Ref   string  `json:"ref"`
	Name  *string `json:"name,omitzero"`
	Drain *bool   `json:"drain,omitzero"`
}

// EntryView is an entry with what is known of it now.
type EntryView struct {
	mesh.Entry
	Status   *mesh.NodeStatus `json:"status,omitzero"`
	CertEnds time.Time        `json:"certificateEnds,omitzero"`
}

// RenameRequest gives an object another label.
type RenameRequest struct {
	Ref  string `json:"ref"`
	Name string `json:"name"`
}

// RevokeRequest revokes an object and everything issued to it.
type RevokeRequest struct {
	Ref    string `json:"ref"`
	Reason string `json:"reason,omitzero"`
	// Ban also keeps a core, an entry or an administrator from joining again.
	Ban bool `json:"ban,omitzero"`
}

// TokenCreateRequest makes a join token.
type TokenCreateRequest struct {
	Role   mesh.Role      `json:"role"`
	Name   string         `json:"name,omitzero"`
	Member string         `json:"member,omitzero"` // cores
	Cell   string         `json:"cell,omitzero"`   // cores
	Grant  mesh.AdminRole `json:"grant,omitzero"`  // administrators
	Life   mesh.Duration  `json:"life,omitzero"`   // default 24 h, at most 30 days
}

// TokenView is a token as shown: without its hash.
type TokenView struct {
	ID      mesh.TokenID    `json:"id"`
	State   mesh.TokenState `json:"state"`
	Role    mesh.Role       `json:"role"`
	Name    string          `json:"name,omitzero"`
	Member  mesh.MemberID   `json:"member,omitzero"`
	Cell    mesh.CellID     `json:"cell,omitzero"`
	Grant   mesh.AdminRole  `json:"grant,omitzero"`
	Created time.Time       `json:"created"`
	By      string          `json:"by"`
	Expires time.Time       `json:"expires"`
	Used    *mesh.TokenUse  `json:"used,omitzero"`
}

// TokenCreated is the one time the token itself is shown.
type TokenCreated struct {
	TokenView
	Token string `json:"token"`
}

// RouteView is a route with its targets.
type RouteView struct {
	mesh.Route
	// Earlier: it is of where the device was served earlier, and clients are not given
	// its name.
	Earlier bool          `json:"earlier,omitzero"`
	Targets []mesh.Target `json:"targets"`
}

// CertListRequest filters by node (role/id or a label) when set.
type CertListRequest struct {
	Page
	Node string `json:"node,omitzero"`
}

// CertView is a certificate's record and whether it is refused.
type CertView struct {
	mesh.CertRecord
	Revoked bool `json:"revoked"`
	Expired bool `json:"expired"`
}

// CRL is a certificate revocation list (RFC 5280) of one server's intermediate.
type CRL struct {
	Issuer string `json:"issuer"`
	PEM    string `json:"pem"`
}

// EventListRequest filters when set. Newest first.
type EventListRequest struct {
	Page
	Type     mesh.EventType `json:"type,omitzero"`
	Severity mesh.Severity  `json:"severity,omitzero"` // the least
	Object   string         `json:"object,omitzero"`   // kind/id, or id alone
	Since    time.Time      `json:"since,omitzero"`
}

// EventFollowRequest asks for the events written after a moment of the store, and
// waits for the first of them. The filters are those of EventListRequest.
type EventFollowRequest struct {
	Rev      int64          `json:"revision,omitzero"` // 0: answer at once with the moment of now
	Wait     mesh.Duration  `json:"wait,omitzero"`     // at most 30 s
	Type     mesh.EventType `json:"type,omitzero"`
	Severity mesh.Severity  `json:"severity,omitzero"`
	Object   string         `json:"object,omitzero"`
}

// EventFollowed is what came, in the order of writing, and where to go on. Nothing
// between two answers is left out.
type EventFollowed struct {
	Rev   int64        `json:"revision"`
	Items []mesh.Event `json:"items"`
}

// AuditListRequest filters when set. Newest first. Actor is who made a change or
// how they spoke: "admin:ID", "telegram:NUMBER"; "telegram:" is everybody who did so.
type AuditListRequest struct {
	Page
	Actor  string    `json:"actor,omitzero"`
	Object string    `json:"object,omitzero"`
	Since  time.Time `json:"since,omitzero"`
}

// AuditVerifyRequest compares the audit records with their chain, and the chain
// with links that are known from elsewhere, at most 100.
type AuditVerifyRequest struct {
	Anchors []mesh.AuditAnchor `json:"anchors,omitzero"`
}

// AdminSetRequest changes what is not nil.
type AdminSetRequest struct {
	Ref  string          `json:"ref"`
	Name *string         `json:"name,omitzero"`
	Role *mesh.AdminRole `json:"role,omitzero"`
	// Suspended refuses the administrator until it is lifted.
	Suspended *bool `json:"suspended,omitzero"`
}

// ConfigSetRequest replaces members of the configuration by JSON merge patch
// (RFC 7396).
type ConfigSetRequest struct {
	Patch []byte `json:"patch"`
}

// Status is the whole mesh at one glance.
type Status struct {
	Mesh            mesh.ID        `json:"mesh"`
	Version         string         `json:"version"`
	Server          ServerStatus   `json:"server"`
	HighlyAvailable bool           `json:"highlyAvailable"`
	Members         int            `json:"members"`
	Devices         int            `json:"devices"`
	Cells           int            `json:"cells"`
	Routes          int            `json:"routes"`
	Cores           map[string]int `json:"cores"` // by state
	EntriesOnline   int            `json:"entriesOnline"`
	Entries         int            `json:"entries"`
	Used            mesh.Traffic   `json:"used,omitzero"`     // by all devices
	Alerts          map[string]int `json:"alerts,omitzero"`   // that fire, by severity
	Rollouts        []RolloutView  `json:"rollouts,omitzero"` // that not all nodes run
	Kubes           []KubeLine     `json:"kubes,omitzero"`    // by name
	Warnings        []string       `json:"warnings,omitzero"`
}

// RolloutView is a configuration on its way to a group of nodes.
type RolloutView struct {
	mesh.Rollout
	GroupName string `json:"groupName"`
}

// ServerStatus is one management server. Parts that could not be read are zero
// and named in Problems.
type ServerStatus struct {
	Server       mesh.ServerID `json:"server"`
	Name         string        `json:"name"`
	Version      string        `json:"version"`
	Started      time.Time     `json:"started"`
	Etcd         EtcdStatus    `json:"etcd"`
	Certificates []CertEnd     `json:"certificates"`
	Nodes        []NodeLine    `json:"nodes"`
	Servers      []ServerLine  `json:"servers,omitzero"`
	// HighlyAvailable: any one server may fail now and nobody notices.
	HighlyAvailable bool `json:"highlyAvailable"`
	// Availability says why, or why not.
	Availability string `json:"availability,omitzero"`
	// Aux is the child process; nil when there has been nothing for it to do.
	Aux      *AuxStatus `json:"aux,omitzero"`
	Problems []string   `json:"problems,omitzero"`
}

// AuxStatus is the child process of a server, and the jobs it has there.
type AuxStatus struct {
	PID       int       `json:"pid,omitzero"` // 0: it does not run now
	Started   time.Time `json:"started,omitzero"`
	Restarts  int       `json:"restarts"`
	LastEnd   string    `json:"lastEnd,omitzero"` // why it ended when it last did
	LastEnded time.Time `json:"lastEnded,omitzero"`
	// Ping is nil when none is configured here.
	Ping *PingStatus `json:"ping,omitzero"`
}

// PingStatus is the dead-man ping. How it went is known to the server that does
// it, since that leads.
type PingStatus struct {
	Leader      mesh.ServerID `json:"leader,omitzero"` // does it; "" when none does, or it is not known
	Here        bool          `json:"here"`            // this server does it
	Held        string        `json:"held,omitzero"`   // why it is held back
	LastSuccess time.Time     `json:"lastSuccess,omitzero"`
	LastFailure time.Time     `json:"lastFailure,omitzero"`
	Failures    int           `json:"failures,omitzero"` // in a row
	Reason      string        `json:"reason,omitzero"`   // of the last failure
}

// MgmtAddRequest lets one more management server in.
type MgmtAddRequest struct {
	Name       string        `json:"name"`
	Passphrase string        `json:"passphrase"` // of the root; checked here, kept nowhere
	Life       mesh.Duration `json:"life,omitzero"`
}

// MgmtAdded is the token with which the server comes; none when one of that
// name is on its way already.
type MgmtAdded struct {
	Token   string    `json:"token,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
}

// MgmtSignRequest signs the intermediate of a server that has come.
type MgmtSignRequest struct {
	Name       string `json:"name"`
	Passphrase string `json:"passphrase"`
}

// MgmtProgress is how far a server has come.
type MgmtProgress struct {
	Waiting string      `json:"waiting,omitzero"` // for what
	Server  *ServerLine `json:"server,omitzero"`  // once it has come
}

// ServerLine is a management server as another one sees it.
type ServerLine struct {
	mesh.Server
	Votes  bool `json:"votes"`  // its etcd counts towards the quorum
	Leader bool `json:"leader"` // of etcd
	Here   bool `json:"here"`   // it answers now, as far as gossip knows
}

// EtcdStatus is the local member.
type EtcdStatus struct {
	Member    string   `json:"member"`
	Leader    string   `json:"leader,omitzero"`
	Revision  int64    `json:"revision"`
	Bytes     int64    `json:"bytes"`
	BytesUsed int64    `json:"bytesUsed"`
	Quota     int64    `json:"quota"`
	Alarms    []string `json:"alarms,omitzero"`
	Members   int      `json:"members"`
}

// CertEnd names a certificate of this server and its end.
type CertEnd struct {
	What string    `json:"what"`
	Ends time.Time `json:"ends"`
}

// NodeLine is a node connected to this server.
type NodeLine struct {
	Node      string    `json:"node"`
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	Connected time.Time `json:"connected"`
	Observed  string    `json:"observed"`
}

// RekeyProgress is how far the mesh is with another data key.
type RekeyProgress struct {
	// Doing is the step that comes next, a few words; "" once it is done.
	Doing string `json:"doing,omitzero"`
	Done  bool   `json:"done"`
	Key   string `json:"key"` // id of the new key
	// Servers have the new key, and Sealed values were sealed anew by this call.
	Servers int `json:"servers"`
	Sealed  int `json:"sealed"`
}
