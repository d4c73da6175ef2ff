package mgmt

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// tgPerson is somebody with whom the bot speaks.
type tgPerson struct {
	name   string
	number mesh.TelegramID
	role   mesh.AdminRole // of the administrator to whom they are bound; "": none
	member bool
	change func(*mesh.Administrator)
	state  mesh.TelegramState
}

// may states a second time what somebody may call.
func (p tgPerson) may(method string, r admin.BotRule) bool {
	if p.state == mesh.TelegramBlocked {
		return method == admin.BotWho.FullName()
	}
	admitted := p.role != "" && p.change == nil
	switch r.Standing {
	case mesh.BotAnyone:
		return true
	case mesh.BotMember:
		return p.member
	case mesh.BotOperator:
		return admitted && (r.Need == mesh.AdminAuditor || r.Need == mesh.AdminOperator && p.role != mesh.AdminAuditor)
	}
	return false
}

// enroll makes the person as the store knows them.
func (p tgPerson) enroll(t *testing.T, w *world) {
	t.Helper()
	u := mesh.TelegramUser{ID: mesh.NewTelegramUserID(), Telegram: p.number.String(), State: p.state, Created: time.Now()}
	_, err := w.store.Change(t.Context(), store.By{Actor: "system:test"}, "test", func(tx *store.Tx) error {
		if old, err := store.Lookup(tx, w.store.Telegram, u.Telegram); err == nil {
			u.ID = old.ID
			return nil // there already
		}
		if p.role != "" {
			a := mesh.Administrator{ID: mesh.NewAdminID(), Name: unique("admin"), Role: p.role}
			if p.change != nil {
				p.change(&a)
			}
			if err := store.Create(tx, w.store.Admins, a.ID, a); err != nil {
				return err
			}
			u.Admin = a.ID
		}
		if p.member {
			m := mesh.Member{ID: mesh.NewMemberID(), Name: unique("member"), State: mesh.MemberActive}
			if err := store.Create(tx, w.store.Members, m.ID, m); err != nil {
				return err
			}
			u.Member = m.ID
		}
		if u.Admin == "" && u.Member == "" && u.State == "" {
			return nil // nothing is known of a stranger
		}
		return store.Create(tx, w.store.Telegram, u.ID, u)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// for whom and by which update a call is made.
func forUser(ctx context.Context, number, update string) context.Context {
	pairs := []string{}
	if number != "" {
		pairs = append(pairs, admin.BotUserHeader, number)
	}
	if update != "" {
		pairs = append(pairs, admin.BotUpdateHeader, update)
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// TestEveryMethodForEveryoneAtTheBot calls every method over the child's socket for
// everyone with whom the bot may speak.
func TestEveryMethodForEveryoneAtTheBot(t *testing.T) {
	w := getWorld(t)
	cc := w.child(t)
	people := []tgPerson{
		{name: "a stranger", number: 501},
		{name: "who is blocked", number: 502, role: mesh.AdminOwner, member: true, state: mesh.TelegramBlocked},
		{name: "a member", number: 503, member: true},
		{name: "an auditor", number: 504, role: mesh.AdminAuditor},
		{name: "an operator", number: 505, role: mesh.AdminOperator},
		{name: "an owner who is a member", number: 506, role: mesh.AdminOwner, member: true},
		{name: "a suspended owner", number: 507, role: mesh.AdminOwner, change: func(a *mesh.Administrator) { a.Suspended = true }},
		{name: "a revoked owner", number: 508, role: mesh.AdminOwner, change: func(a *mesh.Administrator) { a.Revoked = true }},
	}
	table := admin.BotTable()
	var methods []string
	for m := range newAccess(false, false) {
		if rawJSON(m) != "" {
			methods = append(methods, m)
		}
	}
	slices.Sort(methods)
	for _, p := range people {
		p.enroll(t, w)
		for _, m := range methods {
			ctx := forUser(t.Context(), p.number.String(), "update-"+m)
			want := p.may(m, table[m])
			if got := !deniedIn(ctx, t, cc, m); got != want {
				t.Errorf("%s for %s: admitted %v, want %v", m, p.name, got, want)
			}
			if m == admin.BotUnlink.FullName() {
				p.enroll(t, w)
			}
		}
	}
}

func TestTheBotSaysForWhomAndWhy(t *testing.T) {
	w := getWorld(t)
	cc := w.child(t)
	p := tgPerson{name: "an operator", number: 601, role: mesh.AdminOperator, member: true}
	p.enroll(t, w)
	for _, c := range []struct {
		what           string
		method         string
		number, update string
		want           bool
	}{
		{"a read without an update", admin.MemberList.FullName(), "601", "", true},
		{"a read for nobody", admin.MemberList.FullName(), "", "1", false},
		{"a number that is none", admin.MemberList.FullName(), "-601", "1", false},
		{"a number with more", admin.MemberList.FullName(), "601 602", "1", false},
		{"a change without an update", admin.MemberAdd.FullName(), "601", "", false},
		{"a change with a long update", admin.MemberAdd.FullName(), "601", strings.Repeat("x", maxUpdate+1), false},
		{"a change", admin.MemberAdd.FullName(), "601", "1", true},
		{"what no administrator may here", admin.AdminSet.FullName(), "601", "1", false},
	} {
		if got := !deniedIn(forUser(t.Context(), c.number, c.update), t, cc, c.method); got != c.want {
			t.Errorf("%s: admitted %v, want %v", c.what, got, c.want)
		}
	}
	two := metadata.AppendToOutgoingContext(t.Context(), admin.BotUserHeader, "601", admin.BotUserHeader, "602")
	if !deniedIn(two, t, cc, admin.MemberList.FullName()) {
		t.Error("a call for two users is admitted")
	}
}

func TestNobodyIsServedOverTheBotBeforeARestoreIsComplete(t *testing.T) {
	g, _ := newGuard(t, new(logBuffer))
	g.collecting = func() bool { return true }
	m := admin.MemberList.FullName()
	if _, err := g.admitBot(forUser(t.Context(), "1", ""), m, admin.BotTable()[m]); !errors.Is(err, errCollecting) {
		t.Errorf("got %v", err)
	}
}

// TestAnUpdateThatComesTwiceIsDoneOnce has the effect of the first call stand in
// the same transaction as the note that it was made (B-04).
func TestAnUpdateThatComesTwiceIsDoneOnce(t *testing.T) {
	w := getWorld(t)
	cc := w.child(t)
	tgPerson{number: 701, role: mesh.AdminOwner}.enroll(t, w)
	tgPerson{number: 702, role: mesh.AdminOwner}.enroll(t, w)
	add := func(number, update, name string) (admin.MemberView, error) {
		return admin.MemberAdd.Call(forUser(t.Context(), number, update), cc, admin.MemberAddRequest{Name: name})
	}
	name := unique("member")
	m, err := add("701", "u1", name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = add("701", "u1", unique("member")); mesh.Kind(err) != mesh.ErrExists || !admin.IsDone(err) {
		t.Errorf("the second time: %v", err)
	}
	if _, err = add("702", "u1", unique("member")); err != nil {
		t.Errorf("another user's update: %v", err)
	}
	// Another method of the same update has an effect of its own.
	state := mesh.MemberSuspended
	if _, err = admin.MemberSet.Call(forUser(t.Context(), "701", "u1"), cc, admin.MemberSetRequest{Ref: string(m.ID), State: &state}); err != nil {
		t.Error(err)
	}
	l := call(t, admin.AuditList, w.local(t), admin.AuditListRequest{Object: string(m.ID)})
	if len(l.Items) != 2 || l.Items[0].Via != "telegram:701" {
		t.Errorf("on record is %+v", l.Items)
	}
	role := admin.TokenCreateRequest{Role: mesh.RoleAdmin, Grant: mesh.AdminAuditor}
	if _, err := admin.TokenCreate.Call(forUser(t.Context(), "701", "u2"), cc, role); mesh.Kind(err) != mesh.ErrDenied {
		t.Errorf("a token of an administrator: %v", err)
	}
	long := admin.TokenCreateRequest{Role: mesh.RoleEntry, Life: mesh.Duration(25 * time.Hour)}
	if _, err := admin.TokenCreate.Call(forUser(t.Context(), "701", "u3"), cc, long); mesh.Kind(err) != mesh.ErrInvalid {
		t.Errorf("a token for more than a day: %v", err)
	}
	tok, err := admin.TokenCreate.Call(forUser(t.Context(), "701", "u4"), cc, admin.TokenCreateRequest{Role: mesh.RoleEntry})
	if err != nil || time.Until(tok.Expires) > time.Hour {
		t.Errorf("a token is %+v, %v", tok.TokenView, err)
	}
}
