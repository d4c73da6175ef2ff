package mesh

import "time"

// Severity grades an event.
type Severity string

// Severities.
const (
	Info     Severity = "info"
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

// EventType names what happened. The set grows; names never change.
type EventType string

// Event types.
const (
	EventCoreJoined       EventType = "core-joined"
	EventCoreReady        EventType = "core-ready"
	EventCoreUnreachable  EventType = "core-unreachable"
	EventCoreLost         EventType = "core-lost"
	EventEntryJoined      EventType = "entry-joined"
	EventAdminJoined      EventType = "admin-joined"
	EventServerJoined     EventType = "server-joined"
	EventServerRemoved    EventType = "server-removed"
	EventTokenUsed        EventType = "token-used"
	EventTokenGuess       EventType = "token-guess"
	EventTokenReused      EventType = "token-reused"
	EventNodeMisbehaved   EventType = "node-misbehaved"
	EventDuplicateNode    EventType = "duplicate-node"
	EventClockOff         EventType = "clock-off"
	EventConfigRefused    EventType = "config-refused"
	EventCertExpiring     EventType = "cert-expiring"
	EventAddressRefused   EventType = "address-refused"
	EventStoreNearlyFull  EventType = "store-nearly-full"
	EventEpochForged      EventType = "epoch-forged"
	EventCellCertificated EventType = "cell-certificate-issued"
	EventCertOrdered      EventType = "cert-ordered"
	EventCertOrderFailed  EventType = "cert-order-failed"
	EventBackupFailed     EventType = "backup-failed"
	EventBackupConflict   EventType = "backup-conflict"
	EventBackupUnproven   EventType = "backup-unproven"
	EventBackupRecovered  EventType = "backup-recovered"
	EventBackupReaders    EventType = "backup-readers-changed"
	EventMeshRestored     EventType = "mesh-restored"
	EventMeshCollected    EventType = "mesh-collected"
	EventQuotaReached     EventType = "quota-reached"
	EventMgmtLost         EventType = "mgmt-lost"
	EventMgmtBack         EventType = "mgmt-back"
	EventQuorumAtRisk     EventType = "quorum-at-risk"
	EventQuorumSafe       EventType = "quorum-safe"
	EventRouteProbing     EventType = "route-probing"
	EventCellCompromised  EventType = "cell-compromised"
	EventCellRestored     EventType = "cell-restored"
	EventCellRetired      EventType = "cell-retired"
	EventCellUnreachable  EventType = "cell-unreachable"
	EventCellReachable    EventType = "cell-reachable"
	EventMeterDrift       EventType = "meter-drift"
	EventEntryLost        EventType = "entry-lost"
	EventEntryReady       EventType = "entry-ready"
	EventBotTokenShared   EventType = "bot-token-used-elsewhere"
	EventBotDown          EventType = "bot-down"
	EventBotUp            EventType = "bot-up"
	EventNoticesDropped   EventType = "notices-dropped"
	EventAuditBroken      EventType = "audit-broken"

	EventKubeUnreachable   EventType = "kube-unreachable"
	EventKubeReachable     EventType = "kube-reachable"
	EventKubeConflict      EventType = "kube-conflict" // somebody else keeps a field otherwise
	EventKubeSettled       EventType = "kube-settled"  // nobody does any more
	EventKubeDrift         EventType = "kube-drift"    // a change of others was put right
	EventEntriesRolled     EventType = "entries-rolled"
	EventEntriesRolledBack EventType = "entries-rolled-back"
	EventPolicyNotEnforced EventType = "policy-not-enforced"
	EventPolicyEnforced    EventType = "policy-enforced"
	EventAddressDown       EventType = "entry-address-down"
	EventAddressUp         EventType = "entry-address-up"
)

// Event is something worth telling people about.
type Event struct {
	ID       string    `json:"id"` // rises in the order of writing
	Time     time.Time `json:"time"`
	Type     EventType `json:"type"`
	Severity Severity  `json:"severity"`
	Object   string    `json:"object"` // kind/id
	Cause    string    `json:"cause,omitzero"`
	Advice   string    `json:"advice,omitzero"` // what to do
}

// Actor is who makes a change: "admin:<id>", "member:<id>", "local:<uid>",
// "node:<role/id>", "guest" or "system:<part>".
type Actor string

// AuditRecord is written in the transaction of the change it describes.
type AuditRecord struct {
	ID    string    `json:"id"` // rises in the order of writing
	Time  time.Time `json:"time"`
	Actor Actor     `json:"actor"`
	// Via is how the actor spoke when not with a certificate: "telegram:<id>".
	Via     string   `json:"via,omitzero"`
	Request string   `json:"request,omitzero"`
	Action  string   `json:"action"`
	Changes []Change `json:"changes"`
}

// Change is one object before and after, secrets redacted. Nil before means
// created, nil after means deleted.
type Change struct {
	Object string         `json:"object"` // kind/id
	Before map[string]any `json:"before,omitzero"`
	After  map[string]any `json:"after,omitzero"`
}

// AuditSegment is a link of the chain over the audit records: what it covers,
// and the hash that the next link builds on.
type AuditSegment struct {
	ID      string    `json:"id"`      // number, 16 hex digits, without gaps
	First   string    `json:"first"`   // id of the first record in it
	Through string    `json:"through"` // id of the last
	Count   int       `json:"count"`
	Records string    `json:"records"` // hex of SHA-256 over the records
	Sum     string    `json:"sum"`     // hex of SHA-256 over the link before and this one
	Sealed  time.Time `json:"sealed"`
}
