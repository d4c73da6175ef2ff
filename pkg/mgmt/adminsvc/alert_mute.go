package adminsvc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	maxMute     = 30 * 24 * time.Hour
	maxMuteText = 200
)

func (s *Service) alertMute(ctx context.Context, req admin.AlertMuteRequest) (mesh.AlertMute, error) {
	if req.Time <= 0 || time.Duration(req.Time) > maxMute {
		return mesh.AlertMute{}, fmt.Errorf("admin: mute for %v: want more than 0 and at most %v: %w", req.Time, maxMute, mesh.ErrInvalid)
	}
	if len(req.Reason) > maxMuteText {
		return mesh.AlertMute{}, fmt.Errorf("admin: mute: a reason of %d bytes, want at most %d: %w", len(req.Reason), maxMuteText, mesh.ErrInvalid)
	}
	m := mesh.AlertMute{Rule: req.Rule, By: admin.CallerFrom(ctx).Actor, Reason: req.Reason, Until: s.now().Add(time.Duration(req.Time))}
	err := s.changeAlerts(ctx, "alert.mute", func(tx *store.Tx, a *mesh.AlertSettings) (err error) {
		if m.Object, err = s.objectOf(tx, req.Object); err != nil {
			return err
		}
		a.Mutes = slices.DeleteFunc(a.Mutes, func(x mesh.AlertMute) bool {
			return x.Rule == m.Rule && x.Object == m.Object || !x.Until.After(s.now())
		})
		a.Mutes = append(a.Mutes, m)
		return nil
	})
	return m, err
}

// objectOf is kind/id for kind/id or kind/name.
func (s *Service) objectOf(tx *store.Tx, object string) (string, error) {
	if object == "" {
		return "", nil
	}
	kind, ref, ok := strings.Cut(object, "/")
	if !ok || kind == "" || ref == "" || len(object) > maxMuteText {
		return "", fmt.Errorf("admin: object %q: want kind/name, such as core/oslo: %w", mesh.Quotable(object), mesh.ErrInvalid)
	}
	var id string
	var err error
	switch kind {
	case "core":
		id, err = refID(store.Lookup(tx, s.Store.Cores, ref))(func(c mesh.Core) string { return string(c.ID) })
	case "entry":
		id, err = refID(store.Lookup(tx, s.Store.Entries, ref))(func(e mesh.Entry) string { return string(e.ID) })
	case "cell":
		id, err = refID(store.Lookup(tx, s.Store.Cells, ref))(func(c mesh.Cell) string { return string(c.ID) })
	case "server":
		id, err = refID(store.Lookup(tx, s.Store.Servers, ref))(func(v mesh.Server) string { return string(v.ID) })
	default:
		id = ref
	}
	return kind + "/" + id, err
}

func refID[V any](v V, err error) func(func(V) string) (string, error) {
	return func(id func(V) string) (string, error) { return id(v), err }
}

func (s *Service) alertUnmute(ctx context.Context, req admin.AlertUnmuteRequest) (admin.None, error) {
	return admin.None{}, s.changeAlerts(ctx, "alert.unmute", func(tx *store.Tx, a *mesh.AlertSettings) error {
		if req.All {
			a.Mutes = nil
			return nil
		}
		object, err := s.objectOf(tx, req.Object)
		if err != nil {
			return err
		}
		before := len(a.Mutes)
		a.Mutes = slices.DeleteFunc(a.Mutes, func(m mesh.AlertMute) bool { return m.Rule == req.Rule && m.Object == object })
		if len(a.Mutes) == before {
			return mesh.WithHint(fmt.Errorf("admin: unmute: there is no mute of that rule and object: %w", mesh.ErrNotFound), "see meshctl admin alert mutes")
		}
		return nil
	})
}

// alertMutes are those that have not ended.
func (s *Service) alertMutes(ctx context.Context, _ admin.Page) (admin.List[mesh.AlertMute], error) {
	out := admin.List[mesh.AlertMute]{Items: []mesh.AlertMute{}}
	cfg, err := s.configGet(ctx, admin.None{})
	for _, m := range cfg.Alerts.Mutes {
		if m.Until.After(s.now()) {
			out.Items = append(out.Items, m)
		}
	}
	return out, err
}

// changeAlerts changes the settings of alerts, and checks the configuration as a
// whole.
func (s *Service) changeAlerts(ctx context.Context, action string, change func(*store.Tx, *mesh.AlertSettings) error) error {
	return s.change(ctx, action, func(tx *store.Tx) error {
		return store.Update(tx, s.Store.Config, store.ConfigKey, func(c *mesh.Config) error {
			if err := change(tx, &c.Alerts); err != nil {
				return err
			}
			if err := alert.Check(c.Alerts); err != nil {
				return err
			}
			return c.Validate()
		})
	})
}
