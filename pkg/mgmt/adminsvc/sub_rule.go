package adminsvc

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/subscription"
)

// subRuleList is one page: there are few.
func (s *Service) subRuleList(ctx context.Context, _ admin.Page) (admin.List[admin.SubRule], error) {
	cfg, err := s.configGet(ctx, admin.None{})
	out := admin.List[admin.SubRule]{Items: []admin.SubRule{}}
	for i, r := range cfg.Subscription.Agents {
		out.Items = append(out.Items, admin.SubRule{Place: i + 1, AgentRule: r})
	}
	for _, r := range subscription.BuiltIn() {
		out.Items = append(out.Items, admin.SubRule{AgentRule: r})
	}
	return out, err
}

func (s *Service) subRuleAdd(ctx context.Context, req admin.SubRuleAddRequest) (admin.SubRule, error) {
	if err := subscription.CheckRule(req.Rule); err != nil {
		return admin.SubRule{}, err
	}
	out := admin.SubRule{AgentRule: req.Rule}
	err := s.changeRules(ctx, "sub.rule-add", func(rules []mesh.AgentRule) ([]mesh.AgentRule, error) {
		out.Place = req.Place
		if req.Place == 0 {
			out.Place = len(rules) + 1
		}
		if out.Place < 1 || out.Place > len(rules)+1 {
			return nil, fmt.Errorf("admin: place %d: want 1 to %d: %w", out.Place, len(rules)+1, mesh.ErrInvalid)
		}
		for i, r := range rules[:out.Place-1] {
			if r.Match == req.Rule.Match && r.From == "" && r.Below == "" {
				return nil, fmt.Errorf("admin: rule %d takes every client that %q would match: %w", i+1, r.Match, mesh.ErrConflict)
			}
		}
		return slices.Insert(slices.Clone(rules), out.Place-1, req.Rule), nil
	})
	return out, err
}

func (s *Service) subRuleRemove(ctx context.Context, req admin.SubRuleRemoveRequest) (admin.SubRule, error) {
	out := admin.SubRule{Place: req.Place}
	err := s.changeRules(ctx, "sub.rule-remove", func(rules []mesh.AgentRule) ([]mesh.AgentRule, error) {
		if req.Place < 1 || req.Place > len(rules) {
			return nil, mesh.WithHint(fmt.Errorf("admin: rule %d: there are %d: %w", req.Place, len(rules), mesh.ErrNotFound),
				"see meshctl admin sub rule list; the built-in ones stay, and rules of your own go before them")
		}
		if out.AgentRule = rules[req.Place-1]; req.Match != "" && req.Match != out.Match {
			return nil, mesh.WithHint(fmt.Errorf("admin: rule %d is for %q now: %w", req.Place, out.Match, mesh.ErrConflict), "see meshctl admin sub rule list")
		}
		return slices.Delete(slices.Clone(rules), req.Place-1, req.Place), nil
	})
	return out, err
}

// changeRules changes the operator's rules, and checks the configuration as a
// whole.
func (s *Service) changeRules(ctx context.Context, action string, change func([]mesh.AgentRule) ([]mesh.AgentRule, error)) error {
	return s.change(ctx, action, func(tx *store.Tx) error {
		return store.Update(tx, s.Store.Config, store.ConfigKey, func(c *mesh.Config) error {
			rules, err := change(c.Subscription.Agents)
			if err != nil {
				return err
			}
			c.Subscription.Agents = rules
			return c.Validate()
		})
	})
}
