package adminsvc

import (
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestWebhooks(t *testing.T) {
	r := newRig(t)
	const url = "https://hooks.example.net/very/secret?token=abc"
	added := must(r.webhookAdd(r.ctx(), admin.WebhookAddRequest{Name: "on-call", URL: url, Severity: mesh.Warning}))(t)
	if len(added.Secret) < 32 || added.Host != "hooks.example.net" {
		t.Errorf("%+v", added)
	}
	h, err := r.Store.Hooks.Get(t.Context(), "on-call")
	if err != nil {
		t.Fatal(err)
	}
	if got := must(r.Store.Unseal(store.HookURLPlace("on-call"), h.Value.URL))(t); got.Reveal() != url {
		t.Errorf("sealed %q", got.Reveal())
	}
	_, err = r.webhookAdd(r.ctx(), admin.WebhookAddRequest{Name: "on-call", URL: url})
	refused(t, err, mesh.ErrExists, "--replace")
	again := must(r.webhookAdd(r.ctx(), admin.WebhookAddRequest{Name: "on-call", URL: "https://other.example.net/", Secret: strings.Repeat("k", 20), Replace: true}))(t)
	if again.Secret != "" || again.Host != "other.example.net" {
		t.Errorf("a secret that was given is shown, or the host is not replaced: %+v", again)
	}
	must(r.webhookTest(r.ctx(), admin.Ref{Ref: "on-call"}))(t)
	queue, _, err := r.Store.Outbox.List(t.Context())
	if err != nil || len(queue) != 1 {
		t.Fatalf("%d notices, %v", len(queue), err)
	}
	for _, n := range queue {
		if name, ok := n.Hook(); !ok || name != "on-call" || n.Kind != mesh.NoticeTest {
			t.Errorf("%+v", n)
		}
	}
	if l := must(r.webhookList(r.ctx(), admin.Page{}))(t).Items; len(l) != 1 || l[0].Waiting != 1 || l[0].Host != "other.example.net" {
		t.Errorf("%+v", l)
	}
	for _, a := range r.audits() {
		for _, c := range a.Changes {
			for _, v := range c.After {
				if s, ok := v.(string); ok && (strings.Contains(s, "secret") || strings.Contains(s, added.Secret)) {
					t.Errorf("audit shows %q", s)
				}
			}
		}
	}
	must(r.webhookRemove(r.ctx(), admin.Ref{Ref: "on-call"}))(t)
	_, err = r.webhookTest(r.ctx(), admin.Ref{Ref: "on-call"})
	refused(t, err, mesh.ErrNotFound, "on-call")
}

func TestWebhooksThatAreRefused(t *testing.T) {
	r := newRig(t)
	const url = "https://example.net/"
	for says, req := range map[string]admin.WebhookAddRequest{
		"want a name":     {Name: "On Call", URL: url},
		"https or http":   {Name: "a", URL: "ftp://example.net/"},
		"16 to 256 bytes": {Name: "a", URL: url, Secret: "short"},
		"want info":       {Name: "a", URL: url, Severity: "bad"},
	} {
		_, err := r.webhookAdd(r.ctx(), req)
		refused(t, err, mesh.ErrInvalid, says)
	}
	for i := range mesh.MaxWebhooks {
		must(r.webhookAdd(r.ctx(), admin.WebhookAddRequest{Name: "h" + string(rune('a'+i)), URL: url}))(t)
	}
	_, err := r.webhookAdd(r.ctx(), admin.WebhookAddRequest{Name: "one-more", URL: url})
	refused(t, err, mesh.ErrInvalid, "the most")
}
