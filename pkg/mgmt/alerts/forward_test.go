package alerts

import (
	"fmt"
	"slices"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// forwarded are the objects of the events that wait for a webhook, in order.
func (w *world) forwarded(hook string) (out []string) {
	for _, n := range w.notices() {
		if n.Kind == mesh.NoticeEvent && n.To == mesh.ToHook(hook) {
			out = append(out, n.Event.Object)
		}
	}
	return out
}

func TestAWebhookHearsOfEveryEventOnceAndInOrder(t *testing.T) {
	w := newWorld(t)
	w.happen(mesh.Event{Type: mesh.EventCoreReady, Severity: mesh.Info, Object: "core/before"})
	w.hook("every", "", true)
	w.hook("severe", mesh.Critical, true)
	w.hook("alerts", "", false)
	stop := w.run()
	eventually(t, "it is noted from where on", func() bool {
		it, err := w.st.HookStates.Get(t.Context(), "every")
		other, err2 := w.st.HookStates.Get(t.Context(), "severe")
		return err == nil && err2 == nil && it.Value.Events > 0 && other.Value.Events > 0
	})
	var want []string
	for i := range 150 { // the leader changes in the midst of it
		if i == 70 {
			stop()
		}
		if i == 110 {
			stop = w.run()
		}
		object := fmt.Sprintf("core/%03d", i)
		want = append(want, object)
		w.happen(mesh.Event{Type: mesh.EventCoreReady, Severity: mesh.Info, Object: object})
	}
	w.happen(mesh.Event{Type: mesh.EventMeshRestored, Severity: mesh.Critical, Object: "server/x"})
	want = append(want, "server/x")
	eventually(t, "all are queued", func() bool { return len(w.forwarded("every")) >= len(want) && len(w.forwarded("severe")) > 0 })
	if got := w.forwarded("every"); !slices.Equal(got, want) {
		t.Errorf("%d of %d: %v", len(got), len(want), got)
	}
	if got := w.forwarded("severe"); !slices.Equal(got, []string{"server/x"}) {
		t.Errorf("the critical ones: %v", got)
	}
	if got := w.forwarded("alerts"); len(got) != 0 {
		t.Errorf("who wants alerts alone got %v", got)
	}
}
