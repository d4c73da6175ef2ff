package bots

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/adminsvc"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is the bot's side of a server on a real store.
type world struct {
	*Service
	t      *testing.T
	update int
	later  atomic.Int64 // how far the clock is ahead
}

const (
	boss     mesh.TelegramID = 1001 // bound to an owner
	worker   mesh.TelegramID = 1002 // bound to an operator
	reader   mesh.TelegramID = 1003 // bound to an auditor
	alice    mesh.TelegramID = 2001 // a member
	bob      mesh.TelegramID = 2002 // another one
	stranger mesh.TelegramID = 3001
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	st := storetest.New(t)
	log := slog.New(slog.DiscardHandler)
	w.Service = &Service{
		Store: st, Mesh: mesh.NewID(), Server: mesh.NewServerID(), Wake: func() {}, Log: log,
		Admin: &adminsvc.Service{Store: st, Mesh: mesh.NewID(), RootHash: sha256.Sum256([]byte("root")), Log: log},
		Now:   func() time.Time { return time.Now().Add(time.Duration(w.later.Load())) },
	}
	cfg := mesh.DefaultConfig()
	cfg.MgmtAddresses = []string{"mgmt.example.net:8443"}
	cfg.EntryAddresses = []string{"192.0.2.1:443"}
	cfg.Subscription.Name = "sub.example.net"
	cfg.Bot.DeviceLimit = 2
	w.write(func(tx *store.Tx) error { return store.Create(tx, st.Config, store.ConfigKey, cfg) })
	return w
}

func (w *world) write(f func(*store.Tx) error) {
	w.t.Helper()
	if _, err := w.Store.Change(w.t.Context(), store.By{Actor: "system:test"}, "test", f); err != nil {
		w.t.Fatal(err)
	}
}

// settle changes the mesh's settings of the bot.
func (w *world) settle(f func(*mesh.BotSettings)) {
	w.t.Helper()
	w.write(func(tx *store.Tx) error {
		return store.Update(tx, w.Store.Config, store.ConfigKey, func(c *mesh.Config) error { f(&c.Bot); return nil })
	})
}

// admin makes an administrator who is linked.
func (w *world) admin(name string, role mesh.AdminRole, number mesh.TelegramID) mesh.Administrator {
	w.t.Helper()
	a := mesh.Administrator{ID: mesh.NewAdminID(), Name: name, Role: role, Created: time.Now()}
	w.write(func(tx *store.Tx) error {
		return errors.Join(store.Create(tx, w.Store.Admins, a.ID, a),
			w.setUser(tx, number, func(u *mesh.TelegramUser) { u.Admin, u.Name = a.ID, name }))
	})
	return a
}

// member makes a member who is linked.
func (w *world) member(name string, number mesh.TelegramID) mesh.Member {
	w.t.Helper()
	m := w.Admin.NewMember(name, "a remark")
	w.write(func(tx *store.Tx) error {
		return errors.Join(store.Create(tx, w.Store.Members, m.ID, m),
			w.setUser(tx, number, func(u *mesh.TelegramUser) { u.Member, u.Name = m.ID, name }))
	})
	return m
}

func (w *world) cell(name string) mesh.Cell {
	w.t.Helper()
	c := mesh.Cell{ID: mesh.NewCellID(), Name: name, Suffix: mesh.ServerName(name + ".example.net"), State: mesh.CellActive, Certificate: "public"}
	w.write(func(tx *store.Tx) error { return store.Create(tx, w.Store.Cells, c.ID, c) })
	return c
}

func (w *world) core(name string, m mesh.Member, c mesh.Cell) mesh.Core {
	w.t.Helper()
	core := mesh.Core{ID: mesh.NewCoreID(), Name: name, Member: m.ID, Cell: c.ID, State: mesh.CoreReady, EverReady: true, Version: "v1"}
	w.write(func(tx *store.Tx) error { return store.Create(tx, w.Store.Cores, core.ID, core) })
	return core
}

func (w *world) device(name string, m mesh.Member, c mesh.Cell, limits mesh.Limits) mesh.Device {
	w.t.Helper()
	d, err := w.Admin.NewDevice(name, limits)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(func(tx *store.Tx) error { return w.Admin.PlaceDevice(tx, d, m, c.Name, "") })
	return d
}

// as is the context of a call for a Telegram user, as the guard makes it, in an
// update of its own.
func as[Req, Resp any](w *world, m admin.Method[Req, Resp], number mesh.TelegramID) (context.Context, error) {
	w.update++
	return again(w, m, number)
}

// again is as in the update of before.
func again[Req, Resp any](w *world, m admin.Method[Req, Resp], number mesh.TelegramID) (context.Context, error) {
	ctx := w.t.Context()
	p, err := w.Person(ctx, number)
	if err != nil {
		return nil, err
	}
	r, ok := admin.BotTable()[m.FullName()]
	if !ok {
		return nil, mesh.ErrDenied
	}
	actor, err := p.As(m.FullName(), r)
	if err != nil {
		return nil, err
	}
	if r.Changes {
		ctx = store.Once(ctx, m.Name+number.String()+string(rune('0'+w.update)))
	}
	return admin.WithCaller(ctx, admin.Caller{Actor: actor, Role: p.Role(), Via: p.Via(), Request: "req-1", Bot: &p}), nil
}

// try makes a call for a Telegram user.
func try[Req, Resp any](w *world, m admin.Method[Req, Resp], h func(context.Context, Req) (Resp, error), number mesh.TelegramID, req Req) (Resp, error) {
	ctx, err := as(w, m, number)
	if err != nil {
		var none Resp
		return none, err
	}
	return h(ctx, req)
}

// do is try that must succeed.
func do[Req, Resp any](w *world, m admin.Method[Req, Resp], h func(context.Context, Req) (Resp, error), number mesh.TelegramID, req Req) Resp {
	w.t.Helper()
	resp, err := try(w, m, h, number, req)
	if err != nil {
		w.t.Fatalf("%s for %v: %v (hint: %s)", m.Name, number, err, mesh.Hint(err))
	}
	return resp
}

func refused(t *testing.T, err, kind error, says string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error()+" / "+mesh.Hint(err), says) {
		t.Errorf("got error %v (hint: %s), want %v that says %q", err, mesh.Hint(err), kind, says)
	}
}

// waiting are the notices to one user, oldest first.
func (w *world) waiting(to mesh.TelegramID) []mesh.Notice {
	w.t.Helper()
	items, _, err := w.Store.Outbox.Page(w.t.Context(), "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []mesh.Notice
	for _, it := range items {
		if it.Value.To == mesh.ToTelegram(to.String()) {
			out = append(out, it.Value)
		}
	}
	return out
}

// told waits for a notice of the kind to a user.
func (w *world) told(to mesh.TelegramID, kind mesh.NoticeKind) mesh.Notice {
	w.t.Helper()
	var got mesh.Notice
	w.until("a notice "+string(kind), func() bool {
		for _, n := range w.waiting(to) {
			if n.Kind == kind {
				got = n
				return true
			}
		}
		return false
	})
	return got
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within a minute: %s", what)
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatal(w.t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lead has the server lead until the test ends, or stop is called.
func (w *world) lead() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- w.Store.Lead(ctx, "chores", w.Server, w.Lead)
	}()
	var stopped atomic.Bool
	stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
	w.t.Cleanup(stop)
	w.until("the server leads", func() bool { return w.leads() != nil })
	return stop
}
