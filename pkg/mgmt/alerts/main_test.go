package alerts

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patient = time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// world is a mesh with one cell, one core and one entry, all well, three servers,
// and an administrator who is linked with Telegram.
type world struct {
	t     *testing.T
	st    *store.Store
	cell  mesh.Cell
	core  mesh.Core
	entry mesh.Entry
	admin mesh.AdminID

	mu      sync.Mutex // guards what follows
	servers []admin.ServerLine
	ends    []alert.Condition
	skew    time.Duration // that has passed for the rules
}

const chat = "1001"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, st: storetest.New(t), admin: mesh.NewAdminID()}
	w.cell = mesh.Cell{ID: mesh.NewCellID(), Name: "north", Suffix: "a.example.net", State: mesh.CellActive}
	w.core = mesh.Core{ID: mesh.NewCoreID(), Name: "oslo", Cell: w.cell.ID, State: mesh.CoreReady, EverReady: true}
	w.entry = mesh.Entry{ID: mesh.NewEntryID(), Name: "gate", Joined: time.Now().Add(-time.Hour)}
	for range 3 {
		w.servers = append(w.servers, admin.ServerLine{Server: mesh.Server{ID: mesh.NewServerID(), Name: "m", State: mesh.ServerMember}, Votes: true, Here: true})
	}
	user := mesh.TelegramUser{ID: mesh.NewTelegramUserID(), Telegram: chat, Admin: w.admin}
	w.change(func(tx *store.Tx) error {
		return errors.Join(
			store.Create(tx, w.st.Config, store.ConfigKey, mesh.DefaultConfig()),
			store.Create(tx, w.st.Cells, w.cell.ID, w.cell),
			store.Create(tx, w.st.Cores, w.core.ID, w.core),
			store.Create(tx, w.st.Entries, w.entry.ID, w.entry),
			store.Create(tx, w.st.Status, "entry/"+string(w.entry.ID), mesh.NodeStatus{Node: "entry/" + string(w.entry.ID), LastSeen: time.Now().Add(time.Hour)}),
			store.Create(tx, w.st.Admins, w.admin, mesh.Administrator{ID: w.admin, Name: "anna", Role: mesh.AdminOperator}),
			store.Create(tx, w.st.Telegram, user.ID, user),
		)
	})
	return w
}

func (w *world) change(f func(*store.Tx) error) {
	w.t.Helper()
	if _, err := w.st.Change(w.t.Context(), store.By{Actor: "system:test"}, "test", f); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) happen(events ...mesh.Event) {
	w.t.Helper()
	w.change(func(tx *store.Tx) error {
		for _, e := range events {
			if err := tx.Event(e); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) setCore(state mesh.CoreState, reason string) {
	w.t.Helper()
	w.change(func(tx *store.Tx) error {
		return store.Update(tx, w.st.Cores, w.core.ID, func(c *mesh.Core) error { c.State, c.Reason = state, reason; return nil })
	})
}

func (w *world) set(f func(*world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

// pass lets time pass for the rules.
func (w *world) pass(d time.Duration) { w.set(func(w *world) { w.skew += d }) }

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.skew)
}

// run has a server raise alerts until the test ends, or what it returns is called.
func (w *world) run() (stop func()) {
	w.t.Helper()
	s := &Service{
		Store: w.st, Server: mesh.NewServerID(), Every: 20 * time.Millisecond, Now: w.now, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		Servers: func() []admin.ServerLine {
			w.mu.Lock()
			defer w.mu.Unlock()
			return append([]admin.ServerLine(nil), w.servers...)
		},
		Ends: func(context.Context) ([]alert.Condition, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.ends, nil
		},
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

func (w *world) alert(rule, object string) mesh.Alert {
	w.t.Helper()
	it, err := w.st.Alerts.Get(w.t.Context(), alert.ID(rule, object))
	if err != nil && !errors.Is(err, mesh.ErrNotFound) {
		w.t.Fatal(err)
	}
	return it.Value
}

func (w *world) becomes(rule, object string, state mesh.AlertState) {
	w.t.Helper()
	eventually(w.t, rule+" of "+object+" is "+string(state), func() bool { return w.alert(rule, object).State == state })
}

// notices are those that wait, in order.
func (w *world) notices() []mesh.Notice {
	w.t.Helper()
	items, _, err := w.st.Outbox.Page(w.t.Context(), "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []mesh.Notice
	for _, it := range items {
		out = append(out, it.Value)
	}
	return out
}

func (w *world) events(typ mesh.EventType) int {
	w.t.Helper()
	all, _, err := w.st.Events.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, e := range all {
		if e.Type == typ {
			n++
		}
	}
	return n
}
