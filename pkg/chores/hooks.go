package chores

import (
	"context"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Hooks is the server's side of webhooks: which there are, and how they go. What is
// posted the child gets from the Outbox.
//
// Any method may be called from any goroutine.
type Hooks interface {
	// Lead is called whenever this server takes the office, and returns when ctx
	// ends, which is when the office is given back.
	Lead(ctx context.Context) error
	// Order is what the child is to post to now; nil: nothing. It waits for nothing.
	// It is asked every two seconds, and after Foreman.Wake.
	Order() *HooksOrder
	// Ended takes note of how a post went. It waits for nothing.
	Ended(HookOutcome)
}

// HooksOrder asks for notices to be posted. With any change all begins anew.
type HooksOrder struct{ Hooks []Hook }

// Hook is one webhook.
type Hook struct {
	Name   string
	URL    mesh.Secret
	Secret mesh.Secret // key of the signature
}

// HookOutcome is how posts to a webhook go, whenever that changes.
type HookOutcome struct {
	Name     string
	Done     bool
	Word     string // for metrics
	Reason   string // why not, in words; nothing of the URL is in it
	Failures int    // in a row
}

func (o *HooksOrder) proto() *controlpb.HooksOrder {
	if o == nil || len(o.Hooks) == 0 {
		return nil
	}
	out := &controlpb.HooksOrder{}
	for _, h := range o.Hooks {
		out.Hooks = append(out.Hooks, &controlpb.Hook{Name: h.Name, Url: h.URL.Reveal(), Secret: h.Secret.Reveal()})
	}
	return out
}

// hookOutcomeOf checks what the child says; false when it is about no webhook.
func hookOutcomeOf(o *controlpb.HookOutcome, ordered *controlpb.HooksOrder) (HookOutcome, bool) {
	for _, h := range ordered.GetHooks() {
		if h.GetName() != o.GetName() {
			continue
		}
		if o.GetDone() {
			return HookOutcome{Name: h.GetName(), Done: true, Word: done}, true
		}
		word, text := outcome(&controlpb.PingOutcome{Result: o.GetResult(), Status: o.GetStatus()})
		if o.GetResult() == controlpb.PingOutcome_TIMEOUT {
			text = fmt.Sprintf("no answer within %v", postTime)
		}
		if o.GetResult() == controlpb.PingOutcome_REDIRECT {
			text = "it answers with a redirect, which is not followed"
		}
		return HookOutcome{Name: h.GetName(), Word: word, Reason: text, Failures: int(o.GetFailures())}, true
	}
	return HookOutcome{}, false
}

// ordersHooks returns what the child is told about webhooks, nil when there are
// none.
func (f *Foreman) ordersHooks() *controlpb.HooksOrder {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.desk.jobs.hooks
}

// hideHooks takes the secrets of an order out of a text, and of each URL what would
// do for it.
func hideHooks(o *controlpb.HooksOrder, s string) string {
	for _, h := range o.GetHooks() {
		s = conceal(Ping{URL: mesh.Secret(h.GetUrl())}.redact(s), h.GetSecret())
	}
	return s
}

// leadHooks keeps the server's side at work while this server leads.
func (f *Foreman) leadHooks(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.Hooks.Lead(ctx); err != nil && ctx.Err() == nil {
			f.Log.Error("work for webhooks ended", "err", err, "delay", againTime)
		}
		wait(ctx, againTime)
	}
}

// postTime bounds one post.
const postTime = 10 * time.Second
