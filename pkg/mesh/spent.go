package mesh

import "time"

// Spent notes that traffic is used up, of a device or of a member's guests in a
// cell. Management derives it from what cores count. It holds what was moved and
// not the verdict: raising a limit or resetting the traffic of a device undoes it
// in that same moment.
type Spent struct {
	ID     string    `json:"id"`              // the device's, or SpentGuests
	Device DeviceID  `json:"device,omitzero"` // of a device
	Cell   CellID    `json:"cell,omitzero"`   // of guests: where they are
	Member MemberID  `json:"member,omitzero"` // of guests: whose they are
	Moved  Traffic   `json:"moved"`           // since the device was made, or the cell of the guests was compromised
	At     time.Time `json:"at"`
}

// SpentGuests is the id of a Spent of guests.
func SpentGuests(cell CellID, m MemberID) string { return string(cell) + "." + string(m) }

// ExhaustedBy says whether guests who have moved that much have used up what a
// cell grants them.
func (g GuestLimits) ExhaustedBy(moved Traffic) bool {
	return g.Traffic > 0 && moved.Bytes() >= g.Traffic
}
