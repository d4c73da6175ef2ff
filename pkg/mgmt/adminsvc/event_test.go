package adminsvc

import (
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (r *rig) happen(events ...mesh.Event) {
	r.t.Helper()
	_, err := r.Store.Update(r.t.Context(), func(tx *store.Tx) error {
		for _, e := range events {
			if err := tx.Event(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestEventsAreFiltered(t *testing.T) {
	r := newRig(t)
	r.happen(mesh.Event{Type: mesh.EventCoreLost, Severity: mesh.Warning, Object: "core/a"})
	r.happen(mesh.Event{Type: mesh.EventCoreReady, Severity: mesh.Info, Object: "core/a"})
	r.happen(mesh.Event{Type: mesh.EventMeshRestored, Severity: mesh.Critical, Object: "server/s"})
	for name, c := range map[string]struct {
		req  admin.EventListRequest
		want int
	}{
		"all": {admin.EventListRequest{}, 3}, "warnings and worse": {admin.EventListRequest{Severity: mesh.Warning}, 2},
		"of an object": {admin.EventListRequest{Object: "core/a"}, 2}, "of an id": {admin.EventListRequest{Object: "a"}, 2},
		"both":         {admin.EventListRequest{Object: "a", Severity: mesh.Warning}, 1},
		"nothing fits": {admin.EventListRequest{Object: "core/b"}, 0},
	} {
		if got := must(r.eventList(r.ctx(), c.req))(t).Items; len(got) != c.want {
			t.Errorf("%s: %d, want %d", name, len(got), c.want)
		}
	}
	_, err := r.eventList(r.ctx(), admin.EventListRequest{Severity: "x"})
	refused(t, err, mesh.ErrInvalid, "severity")
}

func TestEventsAreFollowedWithoutAGap(t *testing.T) {
	r := newRig(t)
	r.happen(mesh.Event{Type: mesh.EventCoreLost, Object: "core/before"})
	at := must(r.eventFollow(r.ctx(), admin.EventFollowRequest{}))(t)
	if at.Rev == 0 || len(at.Items) != 0 {
		t.Fatalf("%+v", at)
	}
	const many = 40
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range many {
			r.happen(mesh.Event{Type: mesh.EventCoreReady, Severity: mesh.Info, Object: fmt.Sprintf("core/%d", i)})
		}
	}()
	defer func() { <-done }()
	var got []mesh.Event
	for deadline := time.Now().Add(30 * time.Second); len(got) < many && time.Now().Before(deadline); {
		next := must(r.eventFollow(r.ctx(), admin.EventFollowRequest{Rev: at.Rev, Wait: mesh.Duration(5 * time.Second)}))(t)
		got = append(got, next.Items...)
		at = next
	}
	for i, e := range got {
		if e.Object != fmt.Sprintf("core/%d", i) {
			t.Fatalf("event %d is of %s", i, e.Object)
		}
	}
	if len(got) != many {
		t.Errorf("%d events, want %d", len(got), many)
	}
	began := time.Now()
	if none := must(r.eventFollow(r.ctx(), admin.EventFollowRequest{Rev: at.Rev, Wait: mesh.Duration(100 * time.Millisecond)}))(t); len(none.Items) != 0 || time.Since(began) < 100*time.Millisecond {
		t.Errorf("%d events after %v", len(none.Items), time.Since(began))
	}
}

// Whoever was away for long is told what came meanwhile, though no watch goes back
// that far.
func TestEventsAfterACompaction(t *testing.T) {
	r := newRig(t)
	at := must(r.eventFollow(r.ctx(), admin.EventFollowRequest{}))(t)
	r.happen(mesh.Event{Type: mesh.EventCoreLost, Severity: mesh.Warning, Object: "core/a"})
	r.happen(mesh.Event{Type: mesh.EventCoreReady, Severity: mesh.Info, Object: "core/a"})
	now := must(r.eventFollow(r.ctx(), admin.EventFollowRequest{}))(t)
	if _, err := r.Store.Client().Compact(t.Context(), now.Rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	got := must(r.eventFollow(r.ctx(), admin.EventFollowRequest{Rev: at.Rev, Severity: mesh.Warning, Wait: mesh.Duration(time.Second)}))(t)
	if len(got.Items) != 1 || got.Items[0].Type != mesh.EventCoreLost || got.Rev < now.Rev {
		t.Errorf("%+v", got)
	}
}

func TestACellThatIsLostAndRestoredIsTold(t *testing.T) {
	r := newRig(t)
	r.cell("north", "a.example.net")
	for _, to := range []mesh.CellState{mesh.CellCompromised, mesh.CellCompromised, mesh.CellActive, mesh.CellRetired} {
		must(r.cellSet(r.ctx(), admin.CellSetRequest{Ref: "north", State: new(to)}))(t)
	}
	var got []mesh.EventType
	for _, e := range must(r.eventList(r.ctx(), admin.EventListRequest{}))(t).Items {
		got = append(got, e.Type)
	}
	if want := []mesh.EventType{mesh.EventCellRetired, mesh.EventCellRestored, mesh.EventCellCompromised}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
