package alerts

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// The server that wrote the beginning had a clock five seconds ahead of the one
// that took over and wrote the end.
func TestAnEndThatWasWrittenLaterComesLater(t *testing.T) {
	now := time.Date(2027, 3, 1, 8, 0, 0, 0, time.UTC)
	w := newWindow(nil, func() time.Time { return now })
	w.synced = true
	write := func(rev store.Rev, at time.Time, kind mesh.EventType) {
		e := mesh.Event{ID: store.NewTimeID(at), Time: at, Type: kind, Object: "backup/repository"}
		w.add(rev, store.Item[mesh.Event]{Key: e.ID, Value: e, Rev: rev})
	}
	write(7, now.Add(5*time.Second), mesh.EventBackupFailed)
	write(8, now.Add(3*time.Second), mesh.EventBackupRecovered)
	items, _, _ := w.all()
	var events []mesh.Event
	for _, it := range items {
		events = append(events, it.Value)
	}
	if got := alert.NewBook(mesh.AlertSettings{}).FromEvents(events, nil, now); len(got) != 0 {
		t.Errorf("it goes on: %+v", got)
	}
	write(9, now.Add(4*time.Second), mesh.EventBackupFailed)
	if items, _, _ := w.all(); len(items) != 3 || items[2].Rev != 9 {
		t.Errorf("got %+v", items)
	}
}
