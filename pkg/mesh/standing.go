package mesh

// Standing is what a device's client is to be told about its service.
type Standing string

// Standings. Only ok is served.
const (
	StandingOK        Standing = "ok"
	StandingSuspended Standing = "suspended" // the device or its member
	StandingExpired   Standing = "expired"
	StandingExhausted Standing = "exhausted" // its traffic is used up
	StandingGone      Standing = "gone"      // revoked, archived or of a retired cell
)
