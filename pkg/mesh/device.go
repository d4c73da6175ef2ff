package mesh

import "time"

// DeviceState says whether a device is served.
type DeviceState string

// Transitions: active ⇄ suspended, either → revoked (final).
const (
	DeviceActive    DeviceState = "active"
	DeviceSuspended DeviceState = "suspended"
	DeviceRevoked   DeviceState = "revoked"
)

// Limits bound what one device may use. Zero means unlimited.
type Limits struct {
	// Connections is how many may be open at once; each core and each entry
	// counts for itself, so the sum over the mesh is approximate.
	Connections int `json:"connections,omitzero"`
	// Traffic is bytes in both directions together.
	Traffic int64 `json:"traffic,omitzero"`
	// Expires ends service at that time.
	Expires time.Time `json:"expires,omitzero"`
}

// Expired says whether now is at or past the end of service.
func (l Limits) Expired(now time.Time) bool {
	return !l.Expires.IsZero() && !now.Before(l.Expires)
}

// Label is one DNS label of a device; two overlap while one is being replaced.
type Label struct {
	Label    string    `json:"label"`
	Since    time.Time `json:"since,omitzero"`    // zero: since the device was made
	NotAfter time.Time `json:"notAfter,omitzero"` // zero: no end
}

// Assignment is where a device's traffic leaves: any core of Cell, or first
// Core and then the cell it belongs to. Cell is always set and gives the suffix.
type Assignment struct {
	Cell CellID `json:"cell"`
	Core CoreID `json:"core,omitzero"`
}

// Device is one client of a member.
type Device struct {
	ID     DeviceID    `json:"id"`
	Member MemberID    `json:"member"`
	Name   string      `json:"name"`
	State  DeviceState `json:"state"`
	Labels []Label     `json:"labels"`
	// HiddenLabel is a second random label. Inside TLS for the device's own
	// name, CONNECT to <HiddenLabel>.<suffix> answers 407, because browsers
	// send proxy credentials only after it.
	HiddenLabel string    `json:"hiddenLabel"`
	Secret      Sealed    `json:"secret"`
	Verifiers   Verifiers `json:"verifiers"`
	// Subscription is the link through which the device's client learns all of
	// this; zero: none was made.
	Subscription DeviceSubscription `json:"subscription,omitzero"`
	Limits       Limits             `json:"limits,omitzero"`
	// Reset is when its traffic was last counted anew; zero: never.
	Reset    TrafficReset `json:"trafficReset,omitzero"`
	Assigned Assignment   `json:"assigned"`
	// Earlier is where it was served until it was moved.
	Earlier []EarlierPlace `json:"earlier,omitzero"`
	Created time.Time      `json:"created"`
}

// DeviceSubscription is what is kept of a subscription link: enough to know its
// secret when it is shown.
type DeviceSubscription struct {
	Hash    string    `json:"hash"` // SubscriptionHash of the secret
	Created time.Time `json:"created"`
}

// ServedDevice is what a core learns about a device that may reach it.
type ServedDevice struct {
	ID          DeviceID     `json:"id"`
	ServerNames []ServerName `json:"serverNames"`
	HiddenHost  ServerName   `json:"hiddenHost"`
	Verifiers   Verifiers    `json:"verifiers"`
	// Limits.Traffic is of all that the device has moved since it was made: a core
	// knows of no reset.
	Limits Limits `json:"limits,omitzero"`
}

// Names returns the server names that are valid at now, under suffix.
func (d Device) Names(suffix ServerName, now time.Time) []ServerName {
	var out []ServerName
	for _, l := range d.Labels {
		if l.NotAfter.IsZero() || now.Before(l.NotAfter) {
			out = append(out, ServerName(l.Label)+"."+suffix)
		}
	}
	return out
}

// Served says whether the device is to be let through at now: it, its member
// and its cell are active and its service has not expired.
func (d Device) Served(m Member, c Cell, now time.Time) bool {
	return d.State == DeviceActive && m.State == MemberActive && c.State != CellRetired && !d.Limits.Expired(now)
}

// ForCore returns what a core of a cell learns about d.
func (d Device) ForCore(p Placement, now time.Time) ServedDevice {
	if p.Limits.Traffic > 0 {
		p.Limits.Traffic = plus(p.Limits.Traffic, d.Reset.Used.Bytes())
	}
	return ServedDevice{
		ID:          d.ID,
		ServerNames: d.Names(p.Cell.Suffix, now),
		HiddenHost:  ServerName(d.HiddenLabel) + "." + p.Cell.Suffix,
		Verifiers:   d.Verifiers,
		Limits:      p.Limits,
	}
}
