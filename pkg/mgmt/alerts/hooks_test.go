package alerts

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestWebhooksAreOrderedAndTheirStateIsNoted(t *testing.T) {
	w := newWorld(t)
	url, err := w.st.Seal(store.HookURLPlace("a"), "https://hooks.example.net/secret")
	if err != nil {
		t.Fatal(err)
	}
	key, err := w.st.Seal(store.HookSecretPlace("a"), "0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	var woken atomic.Int32
	h := &Hooks{Store: w.st, Wake: func() { woken.Add(1) }, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Lead(ctx) }()
	w.change(func(tx *store.Tx) error {
		return store.Create(tx, w.st.Hooks, "a", mesh.Webhook{Name: "a", URL: url, Secret: key})
	})
	w.hook("broken", "", false) // nothing sealed is in it
	eventually(t, "an order", func() bool { return h.Order() != nil && woken.Load() > 0 })
	if o := h.Order(); len(o.Hooks) != 1 || o.Hooks[0].URL.Reveal() != "https://hooks.example.net/secret" || o.Hooks[0].Secret.Reveal() != "0123456789abcdef" {
		t.Errorf("%+v", o)
	}
	state := func() mesh.HookState {
		it, err := w.st.HookStates.Get(t.Context(), "a")
		if err != nil {
			return mesh.HookState{}
		}
		return it.Value
	}
	h.Ended(chores.HookOutcome{Name: "a", Word: "status", Reason: "the answer was HTTP status 502", Failures: 1})
	eventually(t, "the failure is noted", func() bool { return state().Reason != "" && state().Failures == 1 })
	w.run()
	w.becomes(alert.NoticesWaiting, "hook/a", mesh.AlertPending)
	h.Ended(chores.HookOutcome{Name: "gone", Word: "status", Reason: "x"})
	h.Ended(chores.HookOutcome{Name: "a", Done: true, Word: "done"})
	eventually(t, "the success is noted", func() bool { return state().Reason == "" && !state().Succeeded.IsZero() })
	eventually(t, "nothing waits", func() bool { return w.alert(alert.NoticesWaiting, "hook/a").ID == "" })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if h.Order() != nil {
		t.Error("who does not lead orders posts")
	}
}

func TestTheStateOfAWebhookIsWrittenWhenItChanges(t *testing.T) {
	now := time.Now()
	well := mesh.HookState{Name: "a", Succeeded: now.Add(-time.Minute), Events: 7}
	ill := mesh.HookState{Name: "a", Failed: now.Add(-time.Minute), Failures: 3, Reason: "no answer", Events: 7}
	done, fails := chores.HookOutcome{Name: "a", Done: true}, chores.HookOutcome{Name: "a", Reason: "no answer", Failures: 4}
	for name, c := range map[string]struct {
		was  mesh.HookState
		out  chores.HookOutcome
		same bool
	}{
		"it works as before": {well, done, true}, "it fails as before": {ill, fails, true},
		"it begins to fail": {well, fails, false}, "it works again": {ill, done, false},
		"it fails in another way":      {ill, chores.HookOutcome{Name: "a", Reason: "other"}, false},
		"it has failed for a while":    {mesh.HookState{Failed: now.Add(-time.Hour), Reason: "no answer"}, fails, false},
		"it has worked for a while":    {mesh.HookState{Succeeded: now.Add(-time.Hour)}, done, false},
		"nothing was known of it, yes": {mesh.HookState{}, done, false},
	} {
		next := after(c.was, c.out, now)
		if (next == c.was) != c.same || next.Events != c.was.Events {
			t.Errorf("%s: %+v", name, next)
		}
	}
}

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	s, h := &Service{Store: w.st, Log: slog.New(slog.DiscardHandler)}, &Hooks{}
	h.Ended(chores.HookOutcome{Word: "done"})
	r := prometheus.NewPedanticRegistry()
	for _, c := range s.Collectors(h) {
		r.MustRegister(c)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, f := range families {
		series[f.GetName()] = len(f.GetMetric())
	}
	if series[alert.Metric] != len(alert.Rules()) || series["meshctl_mgmt_webhook_posts_total"] != 1 {
		t.Errorf("%v", series)
	}
}
