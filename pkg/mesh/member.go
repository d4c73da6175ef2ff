package mesh

import "time"

// MemberState says whether a member's devices are served.
type MemberState string

// Transitions: active ⇄ suspended, either → archived (final).
const (
	MemberActive    MemberState = "active"
	MemberSuspended MemberState = "suspended"
	MemberArchived  MemberState = "archived"
)

// Member is a person who takes part: has devices, may own cores.
type Member struct {
	ID    MemberID    `json:"id"`
	Name  string      `json:"name"`
	State MemberState `json:"state"`
	Note  string      `json:"note,omitzero"`
	// DeviceLimit is how many devices the member may have when they add them
	// themselves. Nil: as many as the configuration says; 0: none.
	DeviceLimit *int      `json:"deviceLimit,omitzero"`
	Created     time.Time `json:"created"`
}
