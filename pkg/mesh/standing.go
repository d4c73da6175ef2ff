package mesh

import "time"

// Standing is what a device's client is to be told about its service.
type Standing string

// Standings. Only ok is served.
const (
	StandingOK        Standing = "ok"
	StandingSuspended Standing = "suspended" // the device or its member
	StandingExpired   Standing = "expired"
	StandingExhausted Standing = "exhausted" // its traffic is used up
	StandingGone      Standing = "gone"      // revoked, or its member archived
)

// DeviceStanding is how d, a device of m that has moved that much since it was
// made, stands at now; a zero now looks at no end of service. Where it is served
// then, if anywhere, is up to the cells: Placements.
func DeviceStanding(d Device, m Member, moved Traffic, now time.Time) Standing {
	switch {
	case d.State == DeviceRevoked || m.State == MemberArchived:
		return StandingGone
	case d.State != DeviceActive || m.State != MemberActive:
		return StandingSuspended
	case !now.IsZero() && d.Limits.Expired(now):
		return StandingExpired
	case d.Exhausted(moved):
		return StandingExhausted
	}
	return StandingOK
}

// Exhausted says whether a device that has moved that much since it was made has
// used up its traffic.
func (d Device) Exhausted(moved Traffic) bool {
	return d.Limits.Traffic > 0 && d.Counted(moved).Bytes() >= d.Limits.Traffic
}
