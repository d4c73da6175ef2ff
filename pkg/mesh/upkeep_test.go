package mesh

import (
	"reflect"
	"testing"
	"time"
)

func rotating(every, overlap time.Duration) Config {
	return Config{Labels: LabelRotation{Every: Duration(every), Overlap: Duration(overlap)}, Subscription: SubscriptionSettings{Name: "sub.example.net"}}
}

func TestUpkeepOfADevice(t *testing.T) {
	day := 24 * time.Hour
	made := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	now := made.Add(10 * day)
	linked := Device{State: DeviceActive, Created: made, Labels: []Label{{Label: "a"}}, Subscription: DeviceSubscription{Hash: "x"}}
	with := func(f func(*Device)) Device {
		d := linked
		d.Labels = append([]Label(nil), d.Labels...)
		f(&d)
		return d
	}
	for _, tt := range []struct {
		name   string
		d      Device
		c      Config
		labels int
		next   time.Time
	}{
		{"nothing is replaced without a schedule", linked, Config{}, 1, time.Time{}},
		{"the time has not come", linked, rotating(11*day, day), 1, now.Add(day)},
		{"the time has come", linked, rotating(10*day, day), 2, now.Add(day)},
		{"who has no link would not hear of it", with(func(d *Device) { d.Subscription.Hash = "" }), rotating(day, day), 1, time.Time{}},
		{"nor does anybody without the service", linked, Config{Labels: LabelRotation{Every: Duration(day)}}, 1, time.Time{}},
		{"a suspended device waits", with(func(d *Device) { d.State = DeviceSuspended }), rotating(day, day), 1, time.Time{}},
		{"counted from the label", with(func(d *Device) { d.Labels[0].Since = now.Add(-day) }), rotating(3*day, day), 1, now.Add(2 * day)},
		{"what has ended goes", with(func(d *Device) { d.Labels = append([]Label{{Label: "old", NotAfter: now}}, d.Labels...) }), Config{}, 1, time.Time{}},
		{"what ends is waited for", with(func(d *Device) { d.Labels = append([]Label{{Label: "old", NotAfter: now.Add(1)}}, d.Labels...) }), Config{}, 2, now.Add(1)},
	} {
		before := with(func(*Device) {})
		got, next := tt.d.Upkeep(tt.c, now)
		if len(got.Labels) != tt.labels || !next.Equal(tt.next) {
			t.Errorf("%s: %d labels, look again at %v; want %d, %v", tt.name, len(got.Labels), next, tt.labels, tt.next)
		}
		if again, _ := got.Upkeep(tt.c, now); !reflect.DeepEqual(again, got) {
			t.Errorf("%s: done again, it gives %+v", tt.name, again.Labels)
		}
		if !reflect.DeepEqual(linked, before) {
			t.Fatalf("%s: the device that was given was changed", tt.name)
		}
	}
}

func TestUpkeepOfACell(t *testing.T) {
	now := time.Now()
	c, next := Cell{State: CellActive, Created: now}.Upkeep(Config{}, now)
	if len(c.Paths) != 1 || !next.IsZero() {
		t.Fatalf("paths %+v of a cell that had none, then %v", c.Paths, next)
	}
	if again, _ := c.Upkeep(Config{}, now); !reflect.DeepEqual(again, c) {
		t.Errorf("done again, it gives %+v", again.Paths)
	}
	cfg := rotating(time.Hour, time.Minute)
	then := now.Add(time.Hour)
	if c, next = c.Upkeep(cfg, then); len(c.Paths) != 2 || !next.Equal(then.Add(time.Minute)) {
		t.Errorf("paths %+v, then %v", c.Paths, next)
	}
	if c, next = c.Upkeep(cfg, next); len(c.Paths) != 1 || !next.Equal(then.Add(time.Hour)) {
		t.Errorf("paths %+v, then %v", c.Paths, next)
	}
	if c, _ := (Cell{State: CellRetired}).Upkeep(cfg, now); len(c.Paths) != 0 {
		t.Errorf("a retired cell has %+v", c.Paths)
	}
}
