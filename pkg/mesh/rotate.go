package mesh

import (
	"cmp"
	"net"
	"slices"
	"time"
)

// DefaultLabelOverlap is for how long a replaced label works where nothing else
// is said: clients look for news every 12 hours, and some sleep for days.
const DefaultLabelOverlap = 7 * 24 * time.Hour

// maxOverlapping is how many labels or paths may be valid at once, so that
// rotating over and over fills no table.
const maxOverlapping = 3

// OverlapOrDefault is for how long a replaced label works.
func (r LabelRotation) OverlapOrDefault() time.Duration {
	return time.Duration(cmp.Or(r.Overlap, Duration(DefaultLabelOverlap)))
}

// RotateLabel gives the device a new label. Those it has end after overlap at the
// latest, 0: at once.
func (d *Device) RotateLabel(now time.Time, overlap time.Duration) {
	d.Labels = replaced(d.Labels, now, overlap, func(l *Label) *time.Time { return &l.NotAfter })
	d.Labels = append(d.Labels, Label{Label: NewLabel(), Since: now})
}

// RotatePaths gives the cell new paths. Those it has end after overlap at the
// latest, 0: at once.
func (c *Cell) RotatePaths(now time.Time, overlap time.Duration) {
	c.Paths = replaced(c.Paths, now, overlap, func(p *Paths) *time.Time { return &p.NotAfter })
	p := NewPaths()
	p.Since = now
	c.Paths = append(c.Paths, p)
}

// replaced ends what there is at now+overlap, drops what has ended and the oldest
// beyond what may overlap, and leaves room for one more.
func replaced[T any](old []T, now time.Time, overlap time.Duration, end func(*T) *time.Time) []T {
	last := now.Add(max(0, overlap))
	var out []T
	for _, v := range old {
		e := end(&v)
		if e.IsZero() || e.After(last) {
			*e = last
		}
		if now.Before(*e) {
			out = append(out, v)
		}
	}
	return slices.Delete(out, 0, max(0, len(out)-maxOverlapping+1))
}

// TrafficReset is from where on what a device moves counts against its limit.
type TrafficReset struct {
	At   time.Time `json:"at"`
	Used Traffic   `json:"used"` // until then
}

// Counted is what counts against the device's limit, of all that it has moved.
func (d Device) Counted(used Traffic) Traffic { return used.Beyond(d.Reset.Used) }

// Bytes is both directions together.
func (t Traffic) Bytes() int64 { return plus(t.Up, t.Down) }

// SubscriptionURL is the link of a device whose secret it is; "" while no service
// or no entry is configured. It is as secret as what it says.
func (c Config) SubscriptionURL(secret Secret) string {
	base := c.SubscriptionBase()
	if base == "" {
		return ""
	}
	return base + "/s/" + secret.Reveal()
}

// SubscriptionBase is where clients find the subscription service: at the port of
// the first entry. It is "" while none is configured.
func (c Config) SubscriptionBase() string {
	if c.Subscription.Name == "" || len(c.EntryAddresses) == 0 {
		return ""
	}
	base := "https://" + string(c.Subscription.Name)
	if _, port, err := net.SplitHostPort(c.EntryAddresses[0]); err == nil && port != "443" {
		base += ":" + port
	}
	return base
}
