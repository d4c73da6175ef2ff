package alerts

import (
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestWhatTheStateTells(t *testing.T) {
	w := newWorld(t)
	w.run()
	core, cell, entry := "core/"+string(w.core.ID), "cell/"+string(w.cell.ID), "entry/"+string(w.entry.ID)

	w.setCore(mesh.CoreLost, "no phone-home since noon")
	w.becomes(alert.CoreLost, core, mesh.AlertFiring)
	w.becomes(alert.CellDown, cell, mesh.AlertPending)
	w.pass(time.Minute)
	w.becomes(alert.CellDown, cell, mesh.AlertFiring)
	if a := w.alert(alert.CoreLost, core); a.Cause != "no phone-home since noon" || a.Advice == "" || a.Severity != mesh.Warning {
		t.Errorf("%+v", a)
	}
	w.setCore(mesh.CoreJoined, "nobody answers")
	w.becomes(alert.CoreUnreachable, core, mesh.AlertPending)
	w.setCore(mesh.CoreReady, "")
	eventually(t, "both clear", func() bool {
		return !w.alert(alert.CoreLost, core).Clearing.IsZero() && !w.alert(alert.CellDown, cell).Clearing.IsZero()
	})
	w.pass(5 * time.Minute)
	w.becomes(alert.CoreLost, core, mesh.AlertResolved)
	w.becomes(alert.CellDown, cell, mesh.AlertResolved)

	w.change(func(tx *store.Tx) error {
		return store.Update(tx, w.st.Status, entry, func(s *mesh.NodeStatus) error { s.LastSeen = time.Now().Add(-time.Hour); return nil })
	})
	w.becomes(alert.EntryLost, entry, mesh.AlertPending)
	w.pass(3 * time.Minute)
	w.becomes(alert.EntryLost, entry, mesh.AlertFiring)
	w.becomes(alert.NoEntry, "mesh/entries", mesh.AlertFiring)
	if n := w.events(mesh.EventEntryLost); n != 1 {
		t.Errorf("%d events of the lost entry", n)
	}
	for _, gone := range []bool{true, false} { // a pod that its cluster has no longer, or again
		w.change(func(tx *store.Tx) error {
			return store.Update(tx, w.st.Entries, w.entry.ID, func(e *mesh.Entry) error {
				e.Pod = mesh.EntryPod{Cluster: "kube-a", UID: "u"}
				if gone {
					e.Pod.Gone = time.Now()
				}
				return nil
			})
		})
		eventually(t, "a pod that is gone is missed by nobody", func() bool { return w.alert(alert.EntryLost, entry).Clearing.IsZero() != gone })
	}
	w.change(func(tx *store.Tx) error {
		return store.Update(tx, w.st.Entries, w.entry.ID, func(e *mesh.Entry) error { e.Revoked = true; return nil })
	})
	eventually(t, "nobody misses a revoked entry", func() bool { return !w.alert(alert.EntryLost, entry).Clearing.IsZero() })

	w.change(func(tx *store.Tx) error {
		return store.Update(tx, w.st.Cells, w.cell.ID, func(c *mesh.Cell) error { c.State = mesh.CellCompromised; return nil })
	})
	w.becomes(alert.CellCompromised, cell, mesh.AlertFiring)
	w.change(func(tx *store.Tx) error {
		return store.Create(tx, w.st.Rollouts, string(w.cell.ID), mesh.Rollout{Group: string(w.cell.ID), Parked: mesh.NodeConfig{Revision: 2}, Reason: "it says no"})
	})
	w.becomes(alert.ConfigParked, cell, mesh.AlertFiring)
	w.set(func(w *world) {
		w.ends = []alert.Condition{{Rule: alert.CertExpiring, Object: core, Cause: "it ends", Severity: mesh.Critical}}
	})
	w.pass(2 * endsEvery)
	w.becomes(alert.CertExpiring, core, mesh.AlertFiring)
	if a := w.alert(alert.CertExpiring, core); a.Severity != mesh.Critical {
		t.Errorf("%+v", a)
	}
}

func TestServersThatAreAway(t *testing.T) {
	w := newWorld(t)
	w.run()
	away := func(i int, is bool) { w.set(func(w *world) { w.servers[i].Here = !is }) }
	object := "server/" + string(w.servers[1].ID)
	away(1, true)
	w.becomes(alert.ServerLost, object, mesh.AlertPending)
	w.becomes(alert.QuorumAtRisk, quorum, mesh.AlertPending)
	w.pass(time.Minute)
	w.becomes(alert.ServerLost, object, mesh.AlertFiring)
	w.becomes(alert.QuorumAtRisk, quorum, mesh.AlertFiring)
	away(1, false)
	eventually(t, "both clear", func() bool {
		return !w.alert(alert.ServerLost, object).Clearing.IsZero() && !w.alert(alert.QuorumAtRisk, quorum).Clearing.IsZero()
	})
	w.pass(2 * time.Minute)
	w.becomes(alert.ServerLost, object, mesh.AlertResolved)
	w.becomes(alert.QuorumAtRisk, quorum, mesh.AlertResolved)
	for _, typ := range []mesh.EventType{mesh.EventMgmtLost, mesh.EventMgmtBack, mesh.EventQuorumAtRisk, mesh.EventQuorumSafe} {
		if n := w.events(typ); n != 1 {
			t.Errorf("%d events %s", n, typ)
		}
	}
}

// What happened before a server leads counts as what happens then.
func TestEventsBeforeAndAfterTheTakeover(t *testing.T) {
	w := newWorld(t)
	w.happen(mesh.Event{Type: mesh.EventCellUnreachable, Severity: mesh.Critical, Object: "cell/" + string(w.cell.ID), Cause: "cut"},
		mesh.Event{Type: mesh.EventCellUnreachable, Severity: mesh.Critical, Object: "cell/" + string(mesh.NewCellID()), Cause: "of a cell that was removed"})
	w.run()
	w.becomes("cell-unreachable", "cell/"+string(w.cell.ID), mesh.AlertFiring)
	if all, _, err := w.st.Alerts.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	w.happen(mesh.Event{Type: mesh.EventTokenReused, Severity: mesh.Warning, Object: "token/x", Cause: "again"})
	w.becomes("token-reused", "token/x", mesh.AlertFiring)
	w.happen(mesh.Event{Type: mesh.EventCellReachable, Object: "cell/" + string(w.cell.ID)})
	eventually(t, "it clears", func() bool {
		return !w.alert("cell-unreachable", "cell/"+string(w.cell.ID)).Clearing.IsZero()
	})
}

// hook adds a webhook; what it posts to nobody asks here.
func (w *world) hook(name string, least mesh.Severity, events bool) {
	w.t.Helper()
	w.change(func(tx *store.Tx) error {
		return store.Create(tx, w.st.Hooks, name, mesh.Webhook{Name: name, Host: "x", Least: least, Events: events})
	})
}

func to(list []mesh.Notice, kind mesh.NoticeKind) (out []string) {
	for _, n := range list {
		if n.Kind == kind {
			out = append(out, n.To)
		}
	}
	slices.Sort(out)
	return out
}

func TestWhoIsTold(t *testing.T) {
	w := newWorld(t)
	w.hook("all", "", false)
	w.hook("critical", mesh.Critical, false)
	other, blocked := mesh.NewAdminID(), mesh.NewTelegramUserID()
	w.change(func(tx *store.Tx) error {
		for number, u := range map[string]mesh.TelegramUser{
			"2": {Admin: other}, "3": {Member: mesh.NewMemberID()}, "4": {Admin: mesh.NewAdminID()}, "5": {ID: blocked, Admin: w.admin, State: mesh.TelegramBlocked},
		} {
			if u.Telegram = number; u.ID == "" {
				u.ID = mesh.NewTelegramUserID()
			}
			if err := store.Create(tx, w.st.Telegram, u.ID, u); err != nil {
				return err
			}
		}
		return store.Create(tx, w.st.Admins, other, mesh.Administrator{ID: other, Name: "bert", Role: mesh.AdminOwner, Suspended: true})
	})
	w.run()
	w.setCore(mesh.CoreLost, "away")
	w.becomes(alert.CoreLost, "core/"+string(w.core.ID), mesh.AlertFiring)
	if got := to(w.notices(), mesh.NoticeAlert); !slices.Equal(got, []string{"hook/all", "telegram/" + chat}) {
		t.Errorf("a warning is told to %v", got)
	}
	w.pass(time.Minute)
	w.becomes(alert.CellDown, "cell/"+string(w.cell.ID), mesh.AlertFiring)
	if got := to(w.notices(), mesh.NoticeAlert); len(got) != 5 || !slices.Contains(got, "hook/critical") {
		t.Errorf("with a critical alert: %v", got)
	}
	for _, n := range w.notices() {
		if n.Alert == nil || n.Alert.State != mesh.AlertFiring {
			t.Errorf("%+v", n)
		}
		if _, chat := n.Telegram(); chat && n.Alert.Rule == alert.CoreLost && n.Params["name"] != w.core.Name {
			t.Errorf("people are told %q of the core %s", n.Params["name"], w.core.Name)
		}
	}
}

// A leader that goes, and comes again as another, tells nothing twice and leaves
// nothing out.
func TestTheNextLeaderGoesOn(t *testing.T) {
	w := newWorld(t)
	object := "core/" + string(w.core.ID)
	for round := range 4 {
		stop := w.run()
		if round == 0 {
			w.setCore(mesh.CoreLost, "away")
		}
		w.becomes(alert.CoreLost, object, mesh.AlertFiring)
		w.pass(time.Second)
		w.happen(mesh.Event{Type: mesh.EventMeshRestored, Severity: mesh.Critical, Object: "server/" + string(mesh.NewServerID())})
		eventually(t, "it works", func() bool {
			all, _, err := w.st.Alerts.List(t.Context())
			return err == nil && len(all) >= 3+round
		})
		stop()
	}
	told := map[string]int{}
	for _, n := range w.notices() {
		told[n.Alert.Rule]++
	}
	if told[alert.CoreLost] != 1 || told["mesh-restored"] != 4 {
		t.Errorf("told %v", told)
	}
}

func TestAnAcknowledgementIsNotOverwritten(t *testing.T) {
	w := newWorld(t)
	object := "core/" + string(w.core.ID)
	w.run()
	w.setCore(mesh.CoreLost, "away")
	w.becomes(alert.CoreLost, object, mesh.AlertFiring)
	w.change(func(tx *store.Tx) error {
		return store.Update(tx, w.st.Alerts, alert.ID(alert.CoreLost, object), func(a *mesh.Alert) error {
			a.Acknowledged = &mesh.Acknowledged{By: "admin:x", At: time.Now().UTC()}
			return nil
		})
	})
	w.pass(3 * 24 * time.Hour)
	w.setCore(mesh.CoreLost, "away for long")
	eventually(t, "the cause is the newest", func() bool { return w.alert(alert.CoreLost, object).Cause == "away for long" })
	if a := w.alert(alert.CoreLost, object); a.Acknowledged == nil || a.Acknowledged.By != "admin:x" {
		t.Errorf("%+v", a)
	}
	n := 0
	for _, x := range w.notices() {
		if x.Alert.Rule == alert.CoreLost {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d notices of what somebody takes care of", n)
	}
}
