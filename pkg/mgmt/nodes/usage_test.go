package nodes

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// meteredCore counts as a core does.
type meteredCore struct {
	id    mesh.CoreID
	boot  int
	now   map[mesh.DeviceID]int64 // since its start
	fresh map[mesh.DeviceID]bool  // not told yet
}

func (c *meteredCore) restart() {
	c.boot++
	c.now, c.fresh = map[mesh.DeviceID]int64{}, map[mesh.DeviceID]bool{}
}

func (c *meteredCore) report() *controlpb.Report {
	r := &controlpb.Report{}
	for id := range c.fresh {
		r.Metered = append(r.Metered, &controlpb.DeviceUsage{Device: string(id), Up: c.now[id]})
	}
	c.fresh = map[mesh.DeviceID]bool{}
	return r
}

func (c *meteredCore) meter() string {
	return meterOf(&controlpb.Hello{Instance: string(c.id), Start: int64(c.boot)})
}

func everyone(mesh.DeviceID) bool { return true }

// meterWorld is two servers, some cores and a clock.
type meterWorld struct {
	t       *testing.T
	store   *store.Store
	servers [2]*usage
	cores   []*meteredCore
	at      []int // which server has the core's stream
	now     time.Time
	guestOf mesh.GuestOf
}

func newMeterWorld(t *testing.T) *meterWorld {
	w := &meterWorld{t: t, store: storetest.New(t), servers: [2]*usage{{}, {}}, now: time.Date(2026, 11, 30, 8, 50, 0, 0, time.UTC)}
	for range 3 {
		c := &meteredCore{id: mesh.NewCoreID()}
		c.restart()
		w.cores, w.at = append(w.cores, c), append(w.at, 0)
	}
	return w
}

func (w *meterWorld) report(i int) {
	c := w.cores[i]
	w.servers[w.at[i]].add(c.id, c.meter(), c.report(), everyone, w.now)
}

// move has the core go to a server, which it tells everything.
func (w *meterWorld) move(i, to int) {
	w.at[i] = to
	for id := range w.cores[i].now {
		w.cores[i].fresh[id] = true
	}
}

func (w *meterWorld) flush(i int) {
	w.t.Helper()
	if err := w.servers[i].flush(w.t.Context(), w.store, everyone, w.now); err != nil {
		w.t.Fatal(err)
	}
}

// tally adds up with what is known of cores as they are.
func (w *meterWorld) tally() {
	w.t.Helper()
	t := tallier{store: w.store, exists: everyone, guestOf: w.guestOf, current: func(meter string) bool {
		for _, c := range w.cores {
			if meter == string(c.id)+"."+c.meter() {
				return true
			}
		}
		return false
	}}
	if err := t.pass(w.t.Context(), w.now); err != nil {
		w.t.Fatal(err)
	}
}

func (w *meterWorld) traffic() store.TrafficNow {
	w.t.Helper()
	all, err := w.store.Traffic(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// Whatever happens, nothing counts twice; and once every core has told the server
// it is at, and that one has written it, only what cores had not told before they
// ended is missing.
func TestTrafficIsNeverCountedTwiceAndOnlyWhatWasNotToldIsLost(t *testing.T) {
	devices := []mesh.DeviceID{mesh.NewDeviceID(), mesh.NewDeviceID(), mesh.NewDeviceID(), mesh.NewDeviceID()}
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := newMeterWorld(t)
		moved := map[mesh.DeviceID]int64{} // in truth
		lost := map[mesh.DeviceID]int64{}  // at most
		for step := range 300 {
			i := r.IntN(len(w.cores))
			c := w.cores[i]
			what := ""
			switch n := r.IntN(100); {
			case n < 35:
				what = "traffic"
				d, more := devices[r.IntN(len(devices))], r.Int64N(1000)
				c.now[d] += more
				c.fresh[d] = true
				moved[d] += more
			case n < 60:
				what = "report"
				w.report(i)
			case n < 70:
				what = "flush"
				w.flush(r.IntN(2))
			case n < 78:
				what = "takeover" // of a core whose last report is told again
				w.move(i, 1-w.at[i])
			case n < 82:
				what = "core restart"
				// What the server has not written is lost when that ends too.
				w.report(i)
				w.flush(w.at[i])
				left := r.Int64N(100)
				moved[devices[0]] += left
				lost[devices[0]] += left
				c.restart()
			case n < 86:
				what = "server crash"
				s := r.IntN(2)
				w.servers[s] = &usage{}
				for i := range w.cores {
					if w.at[i] == s {
						w.move(i, 1-s)
					}
				}
			case n < 94:
				what = "time"
				w.now = w.now.Add(time.Duration(r.Int64N(int64(40 * time.Minute))))
			case n < 96:
				what = "clock jump"
				w.now = w.now.Add(time.Duration(r.Int64N(int64(4*time.Hour))) - 2*time.Hour)
			default:
				what = "tally"
				w.tally()
			}
			if step%10 != 0 {
				continue
			}
			all := w.traffic()
			for d, n := range all.Devices {
				if n.Up > moved[d] {
					t.Fatalf("seed %d step %d, after %s: %d counted, %d moved", seed, step, what, n.Up, moved[d])
				}
			}
		}
		for i := range w.cores {
			w.report(i)
		}
		w.flush(0)
		w.flush(1)
		for range 2 {
			all := w.traffic()
			sum := int64(0)
			for _, d := range devices {
				if got := all.Devices[d].Up; got != moved[d]-lost[d] {
					t.Fatalf("seed %d: %d counted, %d moved, %d lost", seed, got, moved[d], lost[d])
				}
				sum += moved[d] - lost[d]
			}
			if all.All.Up != sum {
				t.Fatalf("seed %d: cores moved %d, devices %d", seed, all.All.Up, sum)
			}
			w.now = w.now.Add(6 * time.Hour)
			w.tally()
		}
	}
}

// What is totalled is all that a backup has; cores tell the rest again.
func TestTotalsOfABackupGoOn(t *testing.T) {
	w := newMeterWorld(t)
	d, c := mesh.NewDeviceID(), w.cores[0]
	use := func(n int64) {
		c.now[d] += n
		c.fresh[d] = true
		w.report(0)
		w.flush(0)
	}
	use(100)
	w.now = w.now.Add(2 * time.Hour)
	w.tally()
	state, _, err := w.store.Export(t.Context(), 0)
	if err != nil || len(state) != 1 {
		t.Fatal(state, err)
	}
	use(11) // after the backup
	w.store = storetest.New(t)
	if err := w.store.Import(t.Context(), state, nil); err != nil {
		t.Fatal(err)
	}
	if got := w.traffic().Devices[d].Up; got != 100 {
		t.Errorf("%d after the restore", got)
	}
	w.move(0, 1)
	w.report(0)
	w.flush(1)
	if got := w.traffic().Devices[d].Up; got != 111 {
		t.Errorf("%d after the core came back", got)
	}
}

func TestMarksAndHoursAreTrimmed(t *testing.T) {
	w := newMeterWorld(t)
	d, c := mesh.NewDeviceID(), w.cores[0]
	for day := range 40 {
		c.now[d] += 1
		c.fresh[d] = true
		w.report(0)
		w.flush(0)
		if day < 5 {
			c.restart()
		}
		w.now = w.now.Add(24 * time.Hour)
		w.tally()
	}
	hours, err := w.store.HoursFrom(t.Context(), "")
	if err != nil || len(hours) > 32 || len(hours) < 30 {
		t.Errorf("%d hours, %v", len(hours), err)
	}
	n := w.traffic().Devices[d]
	if n.Up != 40 || len(n.Meters) != 1 {
		t.Errorf("%d counted, meters %v", n.Up, n.Meters)
	}
}

func TestACoreThatStartsOverAndOverLeavesFewMarks(t *testing.T) {
	w := newMeterWorld(t)
	d, c := mesh.NewDeviceID(), w.cores[0]
	for range 120 {
		c.restart()
		c.now[d], c.fresh[d] = 3, true
		w.report(0)
		w.flush(0)
		w.now = w.now.Add(2 * time.Minute)
		w.tally()
	}
	if n := w.traffic().Devices[d]; n.Up != 360 {
		t.Errorf("%d counted", n.Up)
	}
	w.now = w.now.Add(6 * time.Hour)
	w.tally()
	if n := w.traffic().Devices[d]; n.Up != 360 || len(n.Meters) > 20 {
		t.Errorf("%d counted, %d marks", n.Up, len(n.Meters))
	}
}

func TestManyDevicesOfOneCoreAreSpreadOverObjects(t *testing.T) {
	w := newMeterWorld(t)
	c := w.cores[0]
	for range 2*hourDevices + 10 {
		d := mesh.NewDeviceID()
		c.now[d], c.fresh[d] = 1, true
	}
	w.report(0)
	w.flush(0)
	for d := range c.now {
		c.now[d], c.fresh[d] = 2, true
	}
	w.move(0, 1)
	w.report(0)
	w.flush(1)
	hours, err := w.store.HoursFrom(t.Context(), "")
	if err != nil || len(hours) != 3 {
		t.Errorf("%d objects, %v", len(hours), err)
	}
	if all := w.traffic(); all.All.Up != 2*int64(len(c.now)) {
		t.Errorf("%d counted", all.All.Up)
	}
}

// A core of an earlier version reports what was used since its last report.
func TestDeltasOfACoreOfAnEarlierVersionAddUp(t *testing.T) {
	w := newMeterWorld(t)
	d := mesh.NewDeviceID()
	for i := range 20 {
		r := &controlpb.Report{Usage: []*controlpb.DeviceUsage{{Device: string(d), Up: 5}}}
		w.servers[i%2].add(w.cores[0].id, "x", r, everyone, w.now)
		w.flush(i % 2)
		w.now = w.now.Add(25 * time.Minute)
		w.tally()
	}
	if n := w.traffic().Devices[d]; n.Up != 100 || len(n.Meters) > 10 {
		t.Errorf("%d counted, %d meters", n.Up, len(n.Meters))
	}
}

func TestCountsThatCouldNotBeWrittenAreWrittenLater(t *testing.T) {
	st, link := storetest.NewLinked(t)
	w := newMeterWorld(t)
	d, c := mesh.NewDeviceID(), w.cores[0]
	c.now[d], c.fresh[d] = 7, true
	w.report(0)
	link.Cut()
	if err := w.servers[0].flush(t.Context(), st, everyone, w.now); err == nil {
		t.Fatal("written without a store")
	}
	link.Heal()
	w.store = st
	w.flush(0)
	if got := w.traffic().Devices[d].Up; got != 7 {
		t.Errorf("%d counted", got)
	}
}

func BenchmarkTrafficOf10000(b *testing.B) {
	st := storetest.New(b)
	u, now := &usage{}, time.Date(2026, 11, 30, 8, 50, 0, 0, time.UTC)
	for core := range 200 {
		r := &controlpb.Report{}
		for range 50 {
			r.Metered = append(r.Metered, &controlpb.DeviceUsage{Device: string(mesh.NewDeviceID()), Up: 123456789012, Down: 1234567890123, Connections: 1234})
		}
		u.add(mesh.NewCoreID(), fmt.Sprint("a-", core), r, everyone, now)
	}
	full := u.take()
	refill := func() {
		for k, list := range full {
			u.putBack(k, list)
		}
	}
	b.Run("flush", func(b *testing.B) {
		for b.Loop() {
			refill()
			if err := u.flush(b.Context(), st, everyone, now); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if all, err := st.Traffic(b.Context()); err != nil || len(all.Devices) != 10_000 {
				b.Fatal(len(all.Devices), err)
			}
		}
	})
	b.Run("tally", func(b *testing.B) {
		for b.Loop() {
			now = now.Add(time.Hour)
			b.StopTimer()
			refill()
			if err := u.flush(b.Context(), st, everyone, now); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			t := tallier{store: st, exists: everyone, current: func(string) bool { return true }}
			if err := t.pass(b.Context(), now.Add(2*time.Hour)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
