package nodes

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// A server that dies has not written what a core told it last. The core tells the
// next one, and what was told twice counts once.
func TestTrafficOutlivesTheServerThatWasTold(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Meter = time.Hour // nothing is written in between
	all := newServers(t, 2, times)
	dies, stays := all[1], all[0]
	f := dies.readyCore("c")
	d := dies.addDevice("laptop").ID
	known := func(n *network) func() bool {
		return func() bool { _, ok := n.svc.view.devices.Get(d); return ok }
	}
	eventually(t, "the device is known", known(dies.network))
	eventually(t, "the device is known", known(stays.network))
	tell := func(l *line, up int64) {
		l.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{
			Usage:   []*controlpb.DeviceUsage{{Device: string(d), Up: up}},
			Metered: []*controlpb.DeviceUsage{{Device: string(d), Up: up, Connections: 1}},
		}}})
	}
	told := func(n *network) func() bool {
		return func() bool {
			n.svc.usage.mu.Lock()
			defer n.svc.usage.mu.Unlock()
			return len(n.svc.usage.dirty) > 0
		}
	}
	tell(f.at(dies).greet(), 100)
	eventually(t, "told", told(dies.network))
	dies.kill()
	tell(f.at(stays).greet(), 130)
	eventually(t, "told", told(stays.network))
	if _, err := stays.svc.flushUsage(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	got, err := stays.store.Traffic(t.Context())
	if want := (mesh.Traffic{Up: 130, Connections: 1}); err != nil || got.Devices[d].Traffic != want || got.All != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

// A core that phones home anew tells all that it counted since it started. That
// counts once also when what it told before was written.
func TestTrafficCountsOnceWhenTheStreamIsOpenedAgain(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Meter = time.Hour // what is written, the test writes
	n := newNetwork(t, times, loopback...)
	f := n.readyCore("c")
	d := n.addDevice("laptop").ID
	eventually(t, "the device is known", func() bool { _, ok := n.svc.view.devices.Get(d); return ok })
	for _, up := range []int64{100, 130} {
		f.hello.Boot++
		l := f.greet()
		l.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{
			Metered: []*controlpb.DeviceUsage{{Device: string(d), Up: up}}}}})
		eventually(t, "told", func() bool {
			n.svc.usage.mu.Lock()
			defer n.svc.usage.mu.Unlock()
			return len(n.svc.usage.dirty) > 0
		})
		if _, err := n.svc.flushUsage(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		l.hangUp()
	}
	got, err := n.store.Traffic(t.Context())
	if want := (mesh.Traffic{Up: 130}); err != nil || got.Devices[d].Traffic != want {
		t.Errorf("got %+v, %v; want %+v", got.Devices[d].Traffic, err, want)
	}
}
