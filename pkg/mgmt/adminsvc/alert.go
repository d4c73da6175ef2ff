package adminsvc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func checkSeverity(s mesh.Severity) error {
	if s == "" || s.Known() {
		return nil
	}
	return fmt.Errorf("admin: severity %q: want info, warning or critical: %w", mesh.Quotable(string(s)), mesh.ErrInvalid)
}

// alertList shows all in one page, whatever its limit: they are bounded, and in an
// order that no key has.
func (s *Service) alertList(ctx context.Context, req admin.AlertListRequest) (admin.List[admin.AlertView], error) {
	out := admin.List[admin.AlertView]{Items: []admin.AlertView{}}
	if err := checkSeverity(req.Severity); err != nil {
		return out, err
	}
	want, err := pageSize(req.Page)
	if err != nil {
		return out, err
	}
	all, err := s.alerts(ctx)
	if err != nil {
		return out, err
	}
	seen := req.After == ""
	for _, a := range all {
		switch {
		case !seen:
			seen = a.ID == req.After
		case !req.All && a.State != mesh.AlertFiring, !only(req.Rule, a.Rule), req.Object != "" && req.Object != a.Object && req.Object != byName(a), !alert.Reaches(a.Severity, req.Severity):
		case len(out.Items) == want:
			out.Next = out.Items[want-1].ID
			return out, nil
		default:
			out.Items = append(out.Items, a)
		}
	}
	return out, nil
}

// byName is the object of an alert by its name.
func byName(a admin.AlertView) string {
	kind, _, _ := strings.Cut(a.Object, "/")
	return kind + "/" + a.Name
}

// alerts are all, those that fire first, the most severe and then the newest first.
func (s *Service) alerts(ctx context.Context) ([]admin.AlertView, error) {
	var out []admin.AlertView
	_, err := s.Store.View(ctx, func(tx *store.Tx) error {
		out = nil
		all, err := store.List(tx, s.Store.Alerts)
		if err != nil {
			return err
		}
		cfg, err := store.Get(tx, s.Store.Config, store.ConfigKey)
		if err != nil {
			return err
		}
		names, err := s.objectNames(tx, all)
		if err != nil {
			return err
		}
		for _, a := range all {
			out = append(out, s.viewAlert(a, cfg.Alerts, names[a.Object]))
		}
		return nil
	})
	order := []mesh.AlertState{mesh.AlertFiring, mesh.AlertPending, mesh.AlertResolved}
	slices.SortFunc(out, func(x, y admin.AlertView) int {
		severe := 0
		if x.Severity != y.Severity {
			severe = 1
			if alert.Reaches(x.Severity, y.Severity) {
				severe = -1
			}
		}
		return cmp.Or(cmp.Compare(slices.Index(order, x.State), slices.Index(order, y.State)), severe, y.Changed.Compare(x.Changed), cmp.Compare(x.ID, y.ID))
	})
	return out, err
}

func (s *Service) viewAlert(a mesh.Alert, set mesh.AlertSettings, name string) admin.AlertView {
	v := admin.AlertView{Alert: a, Name: name}
	for _, r := range alert.Rules() {
		if r.Name == a.Rule {
			v.What = r.What
		}
	}
	for _, m := range set.Mutes {
		if alert.Muted([]mesh.AlertMute{m}, a.Rule, a.Object, s.now()) && m.Until.After(v.Muted) {
			v.Muted = m.Until
		}
	}
	return v
}

// objectNames are the names of what alerts are about.
func (s *Service) objectNames(tx *store.Tx, all map[string]mesh.Alert) (map[string]string, error) {
	out := map[string]string{}
	for _, a := range all {
		name, err := s.Store.NameOf(tx, a.Object)
		if err != nil {
			return nil, err
		}
		out[a.Object] = name
	}
	return out, nil
}

func (s *Service) alertGet(ctx context.Context, req admin.Ref) (admin.AlertView, error) {
	all, err := s.alerts(ctx)
	if err != nil {
		return admin.AlertView{}, err
	}
	return findAlert(all, req.Ref)
}

// findAlert takes an id, or what no other alert that fires has in common: the rule,
// or the object.
func findAlert(all []admin.AlertView, ref string) (admin.AlertView, error) {
	var found []admin.AlertView
	for _, a := range all {
		if a.ID == ref {
			return a, nil
		}
		if a.State == mesh.AlertFiring && (a.Rule == ref || a.Object == ref || byName(a) == ref || a.Name == ref) {
			found = append(found, a)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return admin.AlertView{}, mesh.WithHint(fmt.Errorf("admin: alert %q: %w", mesh.Quotable(ref), mesh.ErrNotFound), "see meshctl admin alert list")
	}
	return admin.AlertView{}, mesh.WithHint(fmt.Errorf("admin: alert %q: %d fire: %w", mesh.Quotable(ref), len(found), mesh.ErrConflict), "name one by its id: meshctl admin alert list")
}

// alertAck keeps people from being reminded. An alert is a record of the leader's,
// so what tells of this change is the record itself.
func (s *Service) alertAck(ctx context.Context, req admin.AlertAckRequest) (admin.AlertView, error) {
	found, err := s.alertGet(ctx, admin.Ref{Ref: req.Ref})
	if err != nil {
		return found, err
	}
	action := "alert.ack"
	if req.Off {
		action = "alert.unack"
	}
	by := admin.CallerFrom(ctx).Actor
	err = s.change(ctx, action, func(tx *store.Tx) error {
		return store.Update(tx, s.Store.Alerts, found.ID, func(a *mesh.Alert) error {
			switch {
			case req.Off:
				a.Acknowledged = nil
			case a.State != mesh.AlertFiring:
				return fmt.Errorf("admin: alert %s: it does not fire: %w", a.ID, mesh.ErrConflict)
			case a.Acknowledged == nil:
				a.Acknowledged = &mesh.Acknowledged{By: by, At: s.now()}
			}
			found.Alert = *a
			return nil
		})
	})
	return found, err
}
