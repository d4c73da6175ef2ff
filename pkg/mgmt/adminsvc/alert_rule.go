package adminsvc

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// alertRules are one page: the table is short.
func (s *Service) alertRules(ctx context.Context, _ admin.Page) (admin.List[admin.AlertRuleView], error) {
	out := admin.List[admin.AlertRuleView]{Items: []admin.AlertRuleView{}}
	cfg, err := s.configGet(ctx, admin.None{})
	if err != nil {
		return out, err
	}
	all, _, err := s.Store.Alerts.List(ctx)
	if err != nil {
		return out, err
	}
	firing := map[string]int{}
	for _, a := range all {
		if a.State == mesh.AlertFiring {
			firing[a.Rule]++
		}
	}
	for _, r := range alert.Rules() {
		v := viewRule(r, cfg.Alerts)
		v.Firing = firing[r.Name]
		out.Items = append(out.Items, v)
	}
	return out, nil
}

// viewRule is a rule as the settings have it.
func viewRule(r alert.Rule, s mesh.AlertSettings) admin.AlertRuleView {
	changed := slices.ContainsFunc(s.Rules, func(x mesh.AlertRuleSettings) bool { return x.Rule == r.Name })
	set, on := alert.NewBook(s).Rule(r.Name)
	if on {
		r = set
	}
	return admin.AlertRuleView{
		Rule: r.Name, What: r.What, Advice: r.Advice, Severity: r.Severity, Events: r.Raise,
		For: mesh.Duration(r.For), Clear: mesh.Duration(r.Clear), Repeat: mesh.Duration(r.Repeat),
		Disabled: !on, Changed: changed,
	}
}

func (s *Service) alertRuleSet(ctx context.Context, req admin.AlertRuleSetRequest) (admin.AlertRuleView, error) {
	at := slices.IndexFunc(alert.Rules(), func(r alert.Rule) bool { return r.Name == req.Rule })
	if at < 0 {
		return admin.AlertRuleView{}, alert.Check(mesh.AlertSettings{Rules: []mesh.AlertRuleSettings{{Rule: req.Rule}}})
	}
	var out admin.AlertRuleView
	err := s.changeAlerts(ctx, "alert.rule-set", func(_ *store.Tx, a *mesh.AlertSettings) error {
		if req.Severity != nil && !req.Severity.Known() {
			return fmt.Errorf("admin: severity %q: want info, warning or critical: %w", mesh.Quotable(string(*req.Severity)), mesh.ErrInvalid)
		}
		set := mesh.AlertRuleSettings{Rule: req.Rule}
		i := slices.IndexFunc(a.Rules, func(x mesh.AlertRuleSettings) bool { return x.Rule == req.Rule })
		if i >= 0 {
			if !req.Reset {
				set = a.Rules[i]
			}
			a.Rules = slices.Delete(slices.Clone(a.Rules), i, i+1)
		}
		if set = with(set, req); set != (mesh.AlertRuleSettings{Rule: req.Rule}) {
			a.Rules = append(a.Rules, set)
		}
		out = viewRule(alert.Rules()[at], *a)
		return nil
	})
	return out, err
}

func with(set mesh.AlertRuleSettings, req admin.AlertRuleSetRequest) mesh.AlertRuleSettings {
	if req.Disabled != nil {
		set.Disabled = *req.Disabled
	}
	if req.Severity != nil {
		set.Severity = *req.Severity
	}
	for to, from := range map[**mesh.Duration]*mesh.Duration{&set.For: req.For, &set.Clear: req.Clear, &set.Repeat: req.Repeat} {
		if from != nil {
			*to = from
		}
	}
	return set
}
