package adminsvc

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// raise puts an alert where the leader would.
func (r *rig) raise(rule, object string, s mesh.Severity, state mesh.AlertState) mesh.Alert {
	a := mesh.Alert{ID: alert.ID(rule, object), Rule: rule, Object: object, Severity: s, State: state, Since: r.now(), Changed: r.now()}
	if _, err := r.Store.Update(r.t.Context(), func(tx *store.Tx) error { return store.Create(tx, r.Store.Alerts, a.ID, a) }); err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) alertIDs(req admin.AlertListRequest) []string {
	var out []string
	for _, a := range must(r.alertList(r.ctx(), req))(r.t).Items {
		out = append(out, a.ID)
	}
	return out
}

func TestAlertsAreListedByWhatMatters(t *testing.T) {
	r := newRig(t)
	cell := r.cell("a", "a.example.net")
	core := r.core("oslo", r.member("anna").ID, cell.ID)
	lost := r.raise(alert.CoreLost, "core/"+string(core.ID), mesh.Warning, mesh.AlertFiring)
	down := r.raise(alert.CellDown, "cell/"+string(cell.ID), mesh.Critical, mesh.AlertFiring)
	over := r.raise(alert.NoEntry, "mesh/entries", mesh.Critical, mesh.AlertResolved)
	soon := r.raise(alert.EntryLost, "entry/gone", mesh.Info, mesh.AlertPending)
	st := must(r.statusGet(r.ctx(), admin.None{}))(t)
	if want := map[string]int{"warning": 1, "critical": 1}; !maps.Equal(st.Alerts, want) {
		t.Errorf("alerts in status %v, want %v", st.Alerts, want)
	}
	for name, c := range map[string]struct {
		req  admin.AlertListRequest
		want []string
	}{
		"those that fire":    {admin.AlertListRequest{}, []string{down.ID, lost.ID}},
		"all":                {admin.AlertListRequest{All: true}, []string{down.ID, lost.ID, soon.ID, over.ID}},
		"of a rule":          {admin.AlertListRequest{All: true, Rule: alert.NoEntry}, []string{over.ID}},
		"of an object":       {admin.AlertListRequest{Object: "core/" + string(core.ID)}, []string{lost.ID}},
		"of a name":          {admin.AlertListRequest{Object: "core/oslo"}, []string{lost.ID}},
		"severe ones":        {admin.AlertListRequest{All: true, Severity: mesh.Critical}, []string{down.ID, over.ID}},
		"after the first":    {admin.AlertListRequest{Page: admin.Page{After: down.ID}}, []string{lost.ID}},
		"a page of one":      {admin.AlertListRequest{Page: admin.Page{Limit: 1}}, []string{down.ID}},
		"after the last one": {admin.AlertListRequest{Page: admin.Page{After: lost.ID}}, nil},
	} {
		if got := r.alertIDs(c.req); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for _, ref := range []string{lost.ID, alert.CoreLost, "core/oslo", "oslo", lost.Object} {
		if a := must(r.alertGet(r.ctx(), admin.Ref{Ref: ref}))(t); a.ID != lost.ID || a.Name != "oslo" || a.What == "" {
			t.Errorf("%s: %+v", ref, a)
		}
	}
	_, err := r.alertGet(r.ctx(), admin.Ref{Ref: alert.NoEntry})
	refused(t, err, mesh.ErrNotFound, "alert list")
	_, err = r.alertList(r.ctx(), admin.AlertListRequest{Severity: "bad"})
	refused(t, err, mesh.ErrInvalid, "critical")
}

func TestAcknowledgedAlerts(t *testing.T) {
	r := newRig(t)
	a := r.raise(alert.NoEntry, "mesh/entries", mesh.Critical, mesh.AlertFiring)
	got := must(r.alertAck(r.ctx(), admin.AlertAckRequest{Ref: alert.NoEntry}))(t)
	if got.Acknowledged == nil || got.Acknowledged.By != "admin:test" {
		t.Errorf("%+v", got)
	}
	if last := r.audits()[0]; last.Action != "alert.ack" || last.Actor != "admin:test" {
		t.Errorf("audit %+v", last)
	}
	if got := must(r.alertAck(r.ctx(), admin.AlertAckRequest{Ref: a.ID, Off: true}))(t); got.Acknowledged != nil {
		t.Errorf("%+v", got)
	}
	over := r.raise(alert.CellDown, "cell/x", mesh.Critical, mesh.AlertResolved)
	_, err := r.alertAck(r.ctx(), admin.AlertAckRequest{Ref: over.ID})
	refused(t, err, mesh.ErrConflict, "does not fire")
}

func TestMutes(t *testing.T) {
	r := newRig(t)
	cell := r.cell("a", "a.example.net")
	core := r.core("oslo", r.member("anna").ID, cell.ID)
	lost := r.raise(alert.CoreLost, "core/"+string(core.ID), mesh.Warning, mesh.AlertFiring)
	hour := mesh.Duration(time.Hour)
	m := must(r.alertMute(r.ctx(), admin.AlertMuteRequest{Object: "core/oslo", Time: hour, Reason: "moves house"}))(t)
	if m.Object != lost.Object || m.By != "admin:test" {
		t.Errorf("%+v", m)
	}
	if a := must(r.alertGet(r.ctx(), admin.Ref{Ref: lost.ID}))(t); !a.Muted.Equal(m.Until) {
		t.Errorf("muted until %v, want %v", a.Muted, m.Until)
	}
	must(r.alertMute(r.ctx(), admin.AlertMuteRequest{Object: "core/oslo", Time: 2 * hour}))(t)
	must(r.alertMute(r.ctx(), admin.AlertMuteRequest{Rule: alert.NoEntry, Time: hour}))(t)
	if l := must(r.alertMutes(r.ctx(), admin.Page{}))(t).Items; len(l) != 2 || time.Until(l[0].Until) < time.Hour {
		t.Errorf("%+v", l)
	}
	must(r.alertUnmute(r.ctx(), admin.AlertUnmuteRequest{Object: "core/oslo"}))(t)
	_, err := r.alertUnmute(r.ctx(), admin.AlertUnmuteRequest{Object: "core/oslo"})
	refused(t, err, mesh.ErrNotFound, "no mute")
	must(r.alertUnmute(r.ctx(), admin.AlertUnmuteRequest{All: true}))(t)
	if l := must(r.alertMutes(r.ctx(), admin.Page{}))(t).Items; len(l) != 0 {
		t.Errorf("%+v", l)
	}
	for says, req := range map[string]admin.AlertMuteRequest{
		"more than 0": {}, "at most 720h": {Time: 721 * hour}, "did you mean core-lost": {Rule: "core-lots", Time: hour},
		"want kind/name": {Object: "oslo", Time: hour},
	} {
		_, err := r.alertMute(r.ctx(), req)
		refused(t, err, mesh.ErrInvalid, says)
	}
	if _, err := r.alertMute(r.ctx(), admin.AlertMuteRequest{Object: "core/berlin", Time: hour}); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("a core that does not exist: %v", err)
	}
}

func TestRulesAreSetAndReset(t *testing.T) {
	r := newRig(t)
	r.raise(alert.CoreLost, "core/x", mesh.Warning, mesh.AlertFiring)
	find := func() admin.AlertRuleView {
		all := must(r.alertRules(r.ctx(), admin.Page{}))(t).Items
		return all[slices.IndexFunc(all, func(v admin.AlertRuleView) bool { return v.Rule == alert.CoreLost })]
	}
	own := find()
	if own.Firing != 1 || own.Changed || own.Disabled || own.What == "" {
		t.Errorf("%+v", own)
	}
	req := admin.AlertRuleSetRequest{Rule: alert.CoreLost, Severity: new(mesh.Critical), For: new(mesh.Duration(time.Hour))}
	if v := must(r.alertRuleSet(r.ctx(), req))(t); v.Severity != mesh.Critical || v.For != mesh.Duration(time.Hour) || v.Clear != own.Clear || !v.Changed {
		t.Errorf("%+v", v)
	}
	if v := must(r.alertRuleSet(r.ctx(), admin.AlertRuleSetRequest{Rule: alert.CoreLost, Disabled: new(true)}))(t); !v.Disabled {
		t.Errorf("%+v", v)
	}
	if v := find(); !v.Disabled || !v.Changed {
		t.Errorf("%+v", v)
	}
	if v := must(r.alertRuleSet(r.ctx(), admin.AlertRuleSetRequest{Rule: alert.CoreLost, Reset: true}))(t); v.Changed || v.Severity != own.Severity || v.For != own.For {
		t.Errorf("%+v", v)
	}
	_, err := r.alertRuleSet(r.ctx(), admin.AlertRuleSetRequest{Rule: "core-lots"})
	refused(t, err, mesh.ErrInvalid, "did you mean core-lost")
	_, err = r.configSet(r.ctx(), admin.ConfigSetRequest{Patch: []byte(`{"alerts":{"rules":[{"rule":"core-lots"}]}}`)})
	refused(t, err, mesh.ErrInvalid, "did you mean core-lost")
}
