package adminsvc

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestChangeWithoutCallerIsDenied(t *testing.T) {
	r := newRig(t)
	_, err := r.memberAdd(context.Background(), admin.MemberAddRequest{Name: "alice"})
	refused(t, err, mesh.ErrDenied, "caller")
}

func TestChangesNameActorRequestAndAction(t *testing.T) {
	r := newRig(t)
	m := r.member("alice")
	rec := r.audits()[0]
	if rec.Actor != "admin:test" || rec.Request != "req-1" || rec.Action != "member.add" {
		t.Errorf("audit says %q %q %q", rec.Actor, rec.Request, rec.Action)
	}
	if rec.Changes[0].Object != "member/"+string(m.ID) || rec.Changes[0].After["name"] != "alice" {
		t.Errorf("audit says %+v", rec.Changes)
	}
	only := must(r.auditList(r.ctx(), admin.AuditListRequest{Object: string(m.ID)}))(t)
	if len(only.Items) != 1 {
		t.Errorf("%d records of the member, want 1", len(only.Items))
	}
}

// Names are values, never keys (F-01): case and dots make other names.
func TestNamesKeepCaseAndDots(t *testing.T) {
	r := newRig(t)
	ids := map[mesh.MemberID]bool{}
	for _, name := range []string{"Alice", "alice", "a.b", "a/b", "b a", "ä", "✓ <b>_*[x](tg://user?id=1)"} {
		m := r.member(name)
		ids[m.ID] = true
		if got := must(r.memberGet(r.ctx(), admin.Ref{Ref: name}))(t); got.Name != name || got.ID != m.ID {
			t.Errorf("%q came back as %q (%s)", name, got.Name, got.ID)
		}
	}
	if len(ids) != 7 {
		t.Errorf("%d members, want 7", len(ids))
	}
	_, err := r.memberAdd(r.ctx(), admin.MemberAddRequest{Name: "Alice"})
	refused(t, err, mesh.ErrExists, "Alice")
	for _, bad := range []string{"", " a", "a\n", "a\x1b[1m", string(mesh.NewMemberID()), strings.Repeat("x", 101)} {
		_, err := r.memberAdd(r.ctx(), admin.MemberAddRequest{Name: bad})
		refused(t, err, mesh.ErrInvalid, "name")
	}
	_, err = r.memberGet(r.ctx(), admin.Ref{Ref: "Alise"})
	refused(t, err, mesh.ErrNotFound, "Alice")
}

func TestOneNameIsGivenOnceToManyAskers(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 8 {
		wg.Go(func() {
			_, err := r.memberAdd(r.ctx(), admin.MemberAddRequest{Name: "alice"})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
				return
			}
			refused(t, err, mesh.ErrExists, "alice")
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d of 8 succeeded, want 1", won)
	}
}

func TestConcurrentChangesOfDifferentLimitsBothHold(t *testing.T) {
	r := newRig(t)
	r.member("alice")
	r.cell("north", "a.example.net")
	d := r.device("alice", "phone", "north")
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			_, err := r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: string(d.ID), Connections: new(i + 1)})
			if err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			_, err := r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: string(d.ID), Traffic: new(int64(i + 1))})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := must(r.deviceGet(r.ctx(), admin.Ref{Ref: string(d.ID)}))(t)
	if got.Limits.Connections == 0 || got.Limits.Traffic == 0 {
		t.Errorf("one change undid the other: %+v", got.Limits)
	}
}

func TestListsComeInPages(t *testing.T) {
	r := newRig(t)
	var want []string
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		want = append(want, string(r.member(n).ID))
	}
	slices.Sort(want)
	var got []string
	page := admin.Page{Limit: 2}
	for n := 0; ; n++ {
		l := must(r.memberList(r.ctx(), page))(t)
		for _, m := range l.Items {
			got = append(got, string(m.ID))
		}
		if page.After = l.Next; l.Next == "" {
			if n != 2 {
				t.Errorf("%d pages, want 3", n+1)
			}
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	_, err := r.memberList(r.ctx(), admin.Page{Limit: -1})
	refused(t, err, mesh.ErrInvalid, "limit")
}

func TestFilteredListFillsItsPages(t *testing.T) {
	r := newRig(t)
	r.cell("north", "a.example.net")
	for _, m := range []string{"alice", "bob"} {
		r.member(m)
		for _, d := range []string{"1", "2", "3"} {
			r.device(m, d, "north")
		}
	}
	req := admin.DeviceListRequest{Member: "bob", Page: admin.Page{Limit: 2}}
	first := must(r.deviceList(r.ctx(), req))(t)
	req.After = first.Next
	second := must(r.deviceList(r.ctx(), req))(t)
	if len(first.Items) != 2 || len(second.Items) != 1 || second.Next != "" {
		t.Errorf("pages of %d and %d, next %q; want 2, 1 and the end", len(first.Items), len(second.Items), second.Next)
	}
	none := must(r.deviceList(r.ctx(), admin.DeviceListRequest{Cell: "north", Page: admin.Page{After: string(mesh.DeviceID("device-zzz"))}}))(t)
	if none.Items == nil {
		t.Error("an empty list is null in JSON, want []")
	}
}

func TestEventsFilterAndComeNewestFirst(t *testing.T) {
	r := newRig(t)
	for _, typ := range []mesh.EventType{mesh.EventCoreJoined, mesh.EventCoreLost, mesh.EventCoreReady, mesh.EventCoreLost} {
		if _, err := r.Store.Update(r.ctx(), func(tx *store.Tx) error {
			return tx.Event(mesh.Event{Type: typ, Severity: mesh.Info, Object: "core/x"})
		}); err != nil {
			t.Fatal(err)
		}
	}
	all := must(r.eventList(r.ctx(), admin.EventListRequest{}))(t)
	if len(all.Items) != 4 || !slices.IsSortedFunc(all.Items, func(a, b mesh.Event) int { return strings.Compare(b.ID, a.ID) }) {
		t.Errorf("got %d events, want 4 newest first", len(all.Items))
	}
	lost := must(r.eventList(r.ctx(), admin.EventListRequest{Type: mesh.EventCoreLost}))(t)
	if len(lost.Items) != 2 {
		t.Errorf("%d core-lost events, want 2", len(lost.Items))
	}
	late := must(r.eventList(r.ctx(), admin.EventListRequest{Since: all.Items[1].Time}))(t)
	if len(late.Items) != 2 {
		t.Errorf("%d events since the third, want 2", len(late.Items))
	}
}

// What a view, the audit log and the events show must hold no secret, sealed or
// not.
func TestSecretsAreInNoView(t *testing.T) {
	r := newRig(t)
	m := r.member("alice")
	c := r.cell("north", "a.example.net")
	r.core("box", m.ID, c.ID)
	d := r.device("alice", "phone", "north")
	link := must(r.deviceLinkOf(r.ctx(), admin.Ref{Ref: string(d.ID)}))(t)
	token := must(r.tokenCreate(r.ctx(), admin.TokenCreateRequest{Role: mesh.RoleEntry}))(t)
	join := must(mesh.ParseJoinToken(token.Token))(t)
	stored := must(r.Store.Devices.Get(r.ctx(), d.ID))(t).Value
	rec := must(r.Store.Tokens.Get(r.ctx(), token.ID))(t).Value

	shown := []any{
		must(r.deviceList(r.ctx(), admin.DeviceListRequest{}))(t), must(r.deviceGet(r.ctx(), admin.Ref{Ref: "phone"}))(t),
		must(r.cellList(r.ctx(), admin.Page{}))(t), must(r.tokenList(r.ctx(), admin.Page{}))(t), token.TokenView,
		must(r.coreList(r.ctx(), admin.Page{}))(t), must(r.memberList(r.ctx(), admin.Page{}))(t),
		r.audits(), must(r.eventList(r.ctx(), admin.EventListRequest{}))(t),
		must(r.routeGet(r.ctx(), admin.Ref{Ref: "phone"}))(t), must(r.statusGet(r.ctx(), admin.None{}))(t),
	}
	text, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	for what, secret := range map[string]string{
		"device secret": link.Secret, "verifier": stored.Verifiers.HTTP, "token": token.Token, "token secret": join.Secret.Reveal(),
		"token hash": rec.Hash, "sealed value": mesh.SealedPrefix, "private key": "PRIVATE KEY",
	} {
		if strings.Contains(string(text), secret) {
			t.Errorf("a view shows the %s", what)
		}
	}
}
