package core

import (
	"context"

	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// devices is the table of the devices that may use this core, with what each
// has open and has used. It is the one place that admits a stream.
type devices struct {
	path string // of its file; "" keeps it in memory
	max  int    // streams in all

	mu       sync.Mutex // guards all below
	revision int64
	known    map[mesh.DeviceID]*device
	partial  *snapshot // parts of a snapshot that is still arriving
	streams  int
	pending  map[mesh.DeviceID]usage // to be reported
	metered  map[mesh.DeviceID]usage // since the core started
	fresh    map[mesh.DeviceID]bool  // whose metered is to be reported
	total    usage
}

// device is one row.
type device struct {
	mesh.ServedDevice
	open map[*lease]struct{}
	used int64 // bytes here since the core started
}

// usage is what a device used since it was last reported.
type usage struct{ up, down, opened int64 }

func (u *usage) add(v usage) {
	u.up += v.up
	u.down += v.down
	u.opened += v.opened
}

// lease is one open stream of a device. Its meter counts while bytes pass.
type lease struct {
	meter relay.Meter

	device *device
	name   mesh.ServerName
	cut    context.CancelCauseFunc
	shown  atomic.Bool // the client has credentials: what it moves is the device's
	taken  usage       // of the meter, already accounted; guarded by devices.mu
}

// refusal is why a stream is not admitted.
type refusal struct {
	code      relay.Code
	retryable bool
	text      string
}

// get returns the row of id as it is now.
func (t *devices) get(id mesh.DeviceID) (mesh.ServedDevice, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d, ok := t.known[id]
	if !ok {
		return mesh.ServedDevice{}, false
	}
	return d.ServedDevice, true
}

// admit opens a lease for a stream of device id under name. The returned
// context ends when the device is removed, expires or exceeds a limit, with a
// *relay.ResetError as its cause. release must be called when the stream ends.
func (t *devices) admit(ctx context.Context, id mesh.DeviceID, name mesh.ServerName, now time.Time) (context.Context, *lease, *refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d, ok := t.known[id]
	switch {
	case !ok || !slices.Contains(d.ServerNames, name):
		// Another core may be ahead of this one.
		return nil, nil, &refusal{relay.CodeUnknownDevice, true, "no such device under that name"}
	case d.Limits.Expired(now):
		return nil, nil, &refusal{relay.CodeExpired, false, "the device has expired"}
	case d.exhausted():
		return nil, nil, &refusal{relay.CodeLimit, false, "the device's traffic is used up"}
	case d.Limits.Connections > 0 && len(d.open) >= d.Limits.Connections:
		return nil, nil, &refusal{relay.CodeLimit, false, "the device has too many connections"}
	case t.streams >= t.max:
		return nil, nil, &refusal{relay.CodeLimit, true, "this core is full"}
	}
	ctx, cut := context.WithCancelCause(ctx)
	l := &lease{device: d, name: name, cut: cut}
	d.open[l] = struct{}{}
	t.streams++
	t.use(id, usage{opened: 1})
	return ctx, l, nil
}

func (d *device) exhausted() bool { return d.Limits.Traffic > 0 && d.used >= d.Limits.Traffic }

// release ends l and accounts what it used last.
func (t *devices) release(l *lease) {
	t.mu.Lock()
	if !t.settle(l) {
		t.total.add(usage{up: l.meter.Up.Load(), down: l.meter.Down.Load()})
	}
	delete(l.device.open, l)
	t.streams--
	t.mu.Unlock()
	l.cut(nil)
}

// settle moves what l's meter counted since the last time to its device. It is
// false of a client that has shown no credentials: who has seen a device's name
// could use up its traffic otherwise. The caller holds mu.
func (t *devices) settle(l *lease) bool {
	if !l.shown.Load() {
		return false
	}
	now := usage{up: l.meter.Up.Load(), down: l.meter.Down.Load()}
	delta := usage{up: now.up - l.taken.up, down: now.down - l.taken.down}
	l.taken = now
	if delta == (usage{}) {
		return true
	}
	l.device.used += delta.up + delta.down
	t.total.add(delta)
	t.use(l.device.ID, delta)
	return true
}

// use is charge for what was not counted before. The caller holds mu.
func (t *devices) use(id mesh.DeviceID, u usage) {
	sum := t.metered[id]
	sum.add(u)
	t.metered[id] = sum
	t.charge(id, u)
}

// charge adds to what is to be reported. The caller holds mu.
func (t *devices) charge(id mesh.DeviceID, u usage) {
	sum := t.pending[id]
	sum.add(u)
	t.pending[id] = sum
	t.fresh[id] = true
}

// sweep accounts all open streams and cuts those whose device has expired or
// used up its traffic.
func (t *devices) sweep(now time.Time) {
	t.mu.Lock()
	var over []cut
	for _, d := range t.known {
		for l := range d.open {
			t.settle(l)
		}
		switch {
		case d.Limits.Expired(now):
			over = d.cutAll(over, relay.CodeExpired)
		case d.exhausted():
			over = d.cutAll(over, relay.CodeLimit)
		}
	}
	t.mu.Unlock()
	run(over)
}

// cut is a stream to be ended once the table is unlocked.
type cut struct {
	lease *lease
	code  relay.Code
}

func (d *device) cutAll(to []cut, code relay.Code) []cut {
	for l := range d.open {
		to = append(to, cut{l, code})
	}
	return to
}

func run(cuts []cut) {
	for _, c := range cuts {
		c.lease.cut(&relay.ResetError{Code: c.code})
	}
}

// replace makes next the table, keeps what its devices have open, and cuts
// what they no longer may: streams of devices that are gone, of names that are
// no longer theirs, and of a secret that was changed. The caller holds mu and
// runs the cuts after it.
func (t *devices) replace(next map[mesh.DeviceID]mesh.ServedDevice) []cut {
	var over []cut
	for id, d := range t.known {
		n, stays := next[id]
		if !stays {
			over = d.cutAll(over, relay.CodeRevoked)
			delete(t.known, id)
			continue
		}
		over = d.update(over, n)
	}
	for id, n := range next {
		if _, ok := t.known[id]; !ok {
			t.known[id] = &device{ServedDevice: n, open: map[*lease]struct{}{}}
		}
	}
	return over
}

func (d *device) update(over []cut, n mesh.ServedDevice) []cut {
	changed := n.Verifiers != d.Verifiers
	d.ServedDevice = n
	for l := range d.open {
		if changed || !slices.Contains(n.ServerNames, l.name) {
			over = append(over, cut{l, relay.CodeRevoked})
		}
	}
	return over
}

// count returns the number of devices and of open streams.
func (t *devices) count() (known, streams int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known), t.streams
}

// totals are the bytes of all devices, as far as they are accounted.
func (t *devices) totals() usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}
