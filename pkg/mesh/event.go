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

// Actor is who makes a change: "admin:<id>", "local:<uid>", "node:<role/id>",
// or "system:<part>".
type Actor string

// AuditRecord is written in the transaction of the change it describes.
type AuditRecord struct {
	ID      string    `json:"id"` // rises in the order of writing
	Time    time.Time `json:"time"`
	Actor   Actor     `json:"actor"`
	Request string    `json:"request,omitzero"`
	Action  string    `json:"action"`
	Changes []Change  `json:"changes"`
}

// Change is one object before and after, secrets redacted. Nil before means
// created, nil after means deleted.
type Change struct {
	Object string         `json:"object"` // kind/id
	Before map[string]any `json:"before,omitzero"`
	After  map[string]any `json:"after,omitzero"`
}
