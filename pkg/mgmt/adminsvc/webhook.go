package adminsvc

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// webhookAdd checks the form of everything; whether anybody answers there, a test
// finds out.
func (s *Service) webhookAdd(ctx context.Context, req admin.WebhookAddRequest) (admin.WebhookAdded, error) {
	out, secret := admin.WebhookAdded{}, mesh.Secret(req.Secret)
	if req.Secret == "" {
		out.Secret = rand.Text() + rand.Text()
		secret = mesh.Secret(out.Secret)
	}
	host, err := mesh.ParseHookURL(mesh.Secret(req.URL))
	if err := errors.Join(mesh.CheckHookName(req.Name), err, mesh.CheckHookSecret(secret), checkSeverity(req.Severity)); err != nil {
		return admin.WebhookAdded{}, err
	}
	h := mesh.Webhook{Name: req.Name, Host: host, Events: req.Events, Least: req.Severity, Created: s.now()}
	defer s.Store.Sealing()()
	url, err := s.Store.Seal(store.HookURLPlace(h.Name), mesh.Secret(req.URL))
	if err != nil {
		return admin.WebhookAdded{}, err
	}
	key, err := s.Store.Seal(store.HookSecretPlace(h.Name), secret)
	if err != nil {
		return admin.WebhookAdded{}, err
	}
	h.URL, h.Secret = url, key
	err = s.change(ctx, "webhook.add", func(tx *store.Tx) error { return s.putHook(tx, h, req.Replace) })
	if err != nil {
		return admin.WebhookAdded{}, err
	}
	out.WebhookView = viewHook(h, mesh.HookState{Name: h.Name}, 0)
	return out, nil
}

func (s *Service) putHook(tx *store.Tx, h mesh.Webhook, replace bool) error {
	all, err := store.List(tx, s.Store.Hooks)
	if err != nil {
		return err
	}
	if _, ok := all[h.Name]; ok {
		if !replace {
			return mesh.WithHint(fmt.Errorf("admin: webhook %s: %w", h.Name, mesh.ErrExists), "add --replace to put this one in its place")
		}
		if err := forgetHook(tx, s.Store, h.Name); err != nil {
			return err
		}
		return store.Update(tx, s.Store.Hooks, h.Name, func(x *mesh.Webhook) error { *x = h; return nil })
	}
	if len(all) >= mesh.MaxWebhooks {
		return fmt.Errorf("admin: webhook %s: there are %d already, the most there may be: %w", h.Name, len(all), mesh.ErrInvalid)
	}
	return store.Create(tx, s.Store.Hooks, h.Name, h)
}

// forgetHook forgets how a webhook went.
func forgetHook(tx *store.Tx, st *store.Store, name string) error {
	if err := store.Delete(tx, st.HookStates, name); err != nil && !errors.Is(err, mesh.ErrNotFound) {
		return err
	}
	return nil
}

func viewHook(h mesh.Webhook, st mesh.HookState, waiting int) admin.WebhookView {
	return admin.WebhookView{Name: h.Name, Host: h.Host, Events: h.Events, Severity: h.Least, Created: h.Created, Waiting: waiting, State: st}
}

// webhookList is one page: there are few.
func (s *Service) webhookList(ctx context.Context, _ admin.Page) (admin.List[admin.WebhookView], error) {
	out := admin.List[admin.WebhookView]{Items: []admin.WebhookView{}}
	items, _, err := s.Store.Hooks.Page(ctx, "", 0)
	if err != nil {
		return out, err
	}
	states, _, err := s.Store.HookStates.List(ctx)
	if err != nil {
		return out, err
	}
	queue, _, err := s.Store.Outbox.List(ctx)
	if err != nil {
		return out, err
	}
	waiting := map[string]int{}
	for _, n := range queue {
		if name, ok := n.Hook(); ok {
			waiting[name]++
		}
	}
	for _, it := range items {
		out.Items = append(out.Items, viewHook(it.Value, states[it.Key], waiting[it.Key]))
	}
	return out, nil
}

func (s *Service) webhookRemove(ctx context.Context, req admin.Ref) (admin.None, error) {
	err := s.change(ctx, "webhook.remove", func(tx *store.Tx) error {
		if err := store.Delete(tx, s.Store.Hooks, req.Ref); err != nil {
			return err
		}
		return forgetHook(tx, s.Store, req.Ref)
	})
	return admin.None{}, err
}

// webhookTest queues a notice that says nothing but whose test it is.
func (s *Service) webhookTest(ctx context.Context, req admin.Ref) (admin.WebhookView, error) {
	var out admin.WebhookView
	id := store.NewTimeID(s.now())
	err := s.change(ctx, "webhook.test", func(tx *store.Tx) error {
		h, err := store.Get(tx, s.Store.Hooks, req.Ref)
		if err != nil {
			return err
		}
		st, err := store.Get(tx, s.Store.HookStates, req.Ref)
		if err != nil && !errors.Is(err, mesh.ErrNotFound) {
			return err
		}
		st.Name = h.Name
		out = viewHook(h, st, 1)
		return store.Create(tx, s.Store.Outbox, id, mesh.Notice{
			ID: id, To: mesh.ToHook(h.Name), Kind: mesh.NoticeTest, Created: s.now(),
			Params: map[string]string{"by": cmp.Or(string(admin.CallerFrom(ctx).Actor), "nobody")},
		})
	})
	return out, err
}
