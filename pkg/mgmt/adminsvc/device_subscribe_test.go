package adminsvc

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func (r *rig) configure(patch string) mesh.Config {
	r.t.Helper()
	return must(r.configSet(r.ctx(), admin.ConfigSetRequest{Patch: []byte(patch)}))(r.t)
}

func TestLinkIsShownOnceAndKeptAsAHash(t *testing.T) {
	r := newRig(t)
	r.member("alice")
	r.cell("north", "a.example.net")
	d := r.device("alice", "phone", "north")
	ask := func(replace bool) (admin.SubscriptionLink, error) {
		return r.deviceSubscribe(r.ctx(), admin.DeviceSubscribeRequest{Ref: "phone", Replace: replace})
	}
	_, err := ask(false)
	refused(t, err, mesh.ErrConflict, "config set subscription.name")
	r.configure(`{"subscription":{"name":"sub.example.net"},"entryAddresses":["192.0.2.1:8443"]}`)

	link := must(ask(false))(t)
	secret, ok := strings.CutPrefix(link.URL, "https://sub.example.net:8443/s/")
	if !ok || len(secret) != 32 || link.Device != d.ID || link.Replaced {
		t.Errorf("link %+v", link)
	}
	stored := must(r.Store.Devices.Get(r.ctx(), d.ID))(t).Value
	if stored.Subscription.Hash != mesh.SubscriptionHash(mesh.Secret(secret)) || stored.Subscription.Created.IsZero() {
		t.Errorf("kept %+v", stored.Subscription)
	}
	if v := must(r.deviceGet(r.ctx(), admin.Ref{Ref: "phone"}))(t); !v.Linked.Equal(stored.Subscription.Created) {
		t.Errorf("the view says it was made at %v", v.Linked)
	}
	_, err = ask(false)
	refused(t, err, mesh.ErrExists, "--replace")
	other := must(ask(true))(t)
	if other.URL == link.URL || !other.Replaced {
		t.Errorf("replaced by %+v", other)
	}
	if now := must(r.Store.Devices.Get(r.ctx(), d.ID))(t).Value; now.Subscription.Hash == stored.Subscription.Hash {
		t.Error("the link of before still works")
	}
	shown, err := json.Marshal([]any{r.audits(), must(r.deviceList(r.ctx(), admin.DeviceListRequest{}))(t), must(r.memberGet(r.ctx(), admin.Ref{Ref: "alice"}))(t)})
	if err != nil || strings.Contains(string(shown), secret) || strings.Contains(string(shown), stored.Subscription.Hash) {
		t.Errorf("the secret or its hash is shown (%v)", err)
	}
	if a := r.audits()[0]; a.Action != "device.subscribe" {
		t.Errorf("audit says %s", a.Action)
	}
	r.configure(`{"entryAddresses":[]}`)
	_, err = ask(true)
	refused(t, err, mesh.ErrConflict, "entryAddresses=")
	r.configure(`{"entryAddresses":["192.0.2.1:443"]}`)
	must(r.deviceRevoke(r.ctx(), admin.RevokeRequest{Ref: "phone"}))(t)
	_, err = ask(true)
	refused(t, err, mesh.ErrConflict, "revoked")
}

func TestOneLinkIsMadeForManyAskers(t *testing.T) {
	r := newRig(t)
	r.configure(`{"subscription":{"name":"sub.example.net"}}`)
	r.member("alice")
	r.cell("north", "a.example.net")
	d := r.device("alice", "phone", "north")
	var wg sync.WaitGroup
	links := make(chan admin.SubscriptionLink, 8)
	for range cap(links) {
		wg.Go(func() {
			l, err := r.deviceSubscribe(r.ctx(), admin.DeviceSubscribeRequest{Ref: string(d.ID)})
			if err == nil {
				links <- l
				return
			}
			refused(t, err, mesh.ErrExists, "only a hash")
		})
	}
	wg.Wait()
	if len(links) != 1 {
		t.Fatalf("%d links were shown, want 1", len(links))
	}
	_, secret, _ := strings.Cut((<-links).URL, "/s/")
	if kept := must(r.Store.Devices.Get(r.ctx(), d.ID))(t).Value; kept.Subscription.Hash != mesh.SubscriptionHash(mesh.Secret(secret)) {
		t.Error("the link that was shown is not the one that works")
	}
}

// A backup of before does not make a link, a secret or a name work again that was
// replaced since: others may have had it.
func TestRevertDoesNotBringBackWhatWasReplaced(t *testing.T) {
	r := newRig(t)
	r.configure(`{"subscription":{"name":"sub.example.net"}}`)
	r.member("alice")
	c := r.cell("north", "a.example.net")
	d := r.device("alice", "phone", "north")
	device, cell := "device/"+string(d.ID), "cell/"+string(c.ID)
	unlinked := r.stored(device)
	must(r.deviceSubscribe(r.ctx(), admin.DeviceSubscribeRequest{Ref: "phone"}))(t)
	old, oldCell := r.stored(device), r.stored(cell)

	must(r.deviceSubscribe(r.ctx(), admin.DeviceSubscribeRequest{Ref: "phone", Replace: true}))(t)
	must(r.deviceRotate(r.ctx(), admin.DeviceRotateRequest{Ref: "phone", Label: true, Secret: true}))(t)
	must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: "phone", Name: new("tablet")}))(t)
	must(r.cellRotate(r.ctx(), admin.CellRotateRequest{Ref: "north", Overlap: new(mesh.Duration(0))}))(t)
	now := must(r.Store.Devices.Get(r.ctx(), d.ID))(t).Value
	nowCell := must(r.Store.Cells.Get(r.ctx(), c.ID))(t).Value
	for _, then := range []json.RawMessage{old, unlinked} {
		must(r.revert(device, then))(t)
		got := must(r.Store.Devices.Get(r.ctx(), d.ID))(t).Value
		if got.Name != "phone" {
			t.Errorf("name %s", got.Name)
		}
		if got.Subscription != now.Subscription || got.Verifiers != now.Verifiers || got.Secret != now.Secret || len(got.Labels) != len(now.Labels) {
			t.Errorf("brought back: %+v", got)
		}
		must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: "phone", Name: new("tablet")}))(t)
	}
	must(r.revert(cell, oldCell))(t)
	if got := must(r.Store.Cells.Get(r.ctx(), c.ID))(t).Value; got.Paths[0] != nowCell.Paths[0] {
		t.Error("the paths of before are back")
	}
}
