package adminsvc

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestViewsShowWhatWasMoved(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("a", "a.example.net")
	core, other := r.core("one", m.ID, c.ID), r.core("two", m.ID, c.ID)
	used, idle := r.device("alice", "laptop", "a"), r.device("alice", "phone", "a")
	hour := mesh.HourOf(time.Now())
	for i, id := range []mesh.CoreID{core.ID, other.ID} {
		_, err := r.Store.Update(t.Context(), func(tx *store.Tx) error {
			return store.Create(tx, r.Store.Hours, store.MeterID(hour, id, "x", 0), mesh.MeterHour{
				Hour: hour, Core: id, Meter: "x", Devices: map[mesh.DeviceID]mesh.Traffic{used.ID: {Up: 1, Down: int64(10 * (i + 1)), Connections: 1}},
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := mesh.Traffic{Up: 2, Down: 30, Connections: 2}
	d := must(r.deviceGet(r.ctx(), admin.Ref{Ref: string(used.ID)}))(t)
	if d.Used != want || !d.LastUsed.Equal(hour.Start()) {
		t.Errorf("device %+v, last %v", d.Used, d.LastUsed)
	}
	for _, d := range must(r.deviceList(r.ctx(), admin.DeviceListRequest{}))(t).Items {
		if d.ID == used.ID && d.Used != want || d.ID == idle.ID && (d.Used != mesh.Traffic{} || !d.LastUsed.IsZero()) {
			t.Errorf("listed: %s moved %+v, last %v", d.Name, d.Used, d.LastUsed)
		}
	}
	if v := must(r.coreGet(r.ctx(), admin.Ref{Ref: string(other.ID)}))(t); v.Used != (mesh.Traffic{Up: 1, Down: 20, Connections: 1}) {
		t.Errorf("core %+v", v.Used)
	}
	if st := must(r.statusGet(r.ctx(), admin.None{}))(t); st.Used != want {
		t.Errorf("status %+v", st.Used)
	}
}
