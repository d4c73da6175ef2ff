package adminsvc

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// followWait bounds how long a call waits for events, and followGather for how
	// long it gathers those that come right after the first.
	followWait   = 30 * time.Second
	followGather = 50 * time.Millisecond
	followMost   = 500
)

// eventFilter is what EventListRequest and EventFollowRequest ask for.
type eventFilter struct {
	typ    mesh.EventType
	least  mesh.Severity
	object string
}

func (f eventFilter) takes(e mesh.Event) bool {
	if f.object != "" && e.Object != f.object {
		if _, id, _ := strings.Cut(e.Object, "/"); id != f.object {
			return false
		}
	}
	return only(f.typ, e.Type) && alert.Reaches(e.Severity, f.least)
}

func (s *Service) eventList(ctx context.Context, req admin.EventListRequest) (admin.List[mesh.Event], error) {
	if err := checkSeverity(req.Severity); err != nil {
		return admin.List[mesh.Event]{}, err
	}
	f := eventFilter{req.Type, req.Severity, req.Object}
	return listUntil(ctx, req.Page, s.Store.Events.Latest,
		func(_ string, e mesh.Event) (mesh.Event, bool) { return e, f.takes(e) },
		func(e mesh.Event) bool { return e.Time.Before(req.Since) })
}

// eventFollow gathers what a watch brings. Where the watch cannot begin that far
// back, it lists, and tells by each event's revision what is new.
func (s *Service) eventFollow(ctx context.Context, req admin.EventFollowRequest) (admin.EventFollowed, error) {
	out := admin.EventFollowed{Rev: req.Rev, Items: []mesh.Event{}}
	if err := checkSeverity(req.Severity); err != nil {
		return out, err
	}
	if req.Rev == 0 {
		rev, err := s.revision(ctx)
		out.Rev = int64(rev)
		return out, err
	}
	f := eventFilter{req.Type, req.Severity, req.Object}
	err := s.gather(ctx, &out, f, min(time.Duration(req.Wait), followWait))
	if errors.Is(err, store.ErrCompacted) {
		return s.catchUp(ctx, req.Rev, f)
	}
	return out, err
}

func (s *Service) gather(ctx context.Context, out *admin.EventFollowed, f eventFilter, wait time.Duration) error {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	end := time.AfterFunc(wait, cancel)
	defer end.Stop()
	for ev, err := range s.Store.Events.Watch(bounded, store.Rev(out.Rev)) {
		if err != nil {
			return err
		}
		out.Rev = max(out.Rev, int64(ev.Rev))
		if ev.Deleted || !f.takes(ev.Value) {
			continue
		}
		if out.Items = append(out.Items, ev.Value); len(out.Items) == 1 {
			end.Reset(followGather)
		}
		// Events of one transaction have one revision: it is not cut between them.
		if len(out.Items) >= followMost {
			end.Reset(0)
		}
	}
	return ctx.Err()
}

// catchUp lists what was written after a moment that is too long ago to watch from.
func (s *Service) catchUp(ctx context.Context, after int64, f eventFilter) (admin.EventFollowed, error) {
	rev, err := s.revision(ctx)
	if err != nil {
		return admin.EventFollowed{}, err
	}
	out := admin.EventFollowed{Rev: int64(rev), Items: []mesh.Event{}}
	for next := ""; ; {
		items, more, err := s.Store.Events.Page(ctx, next, maxPage)
		if err != nil {
			return out, err
		}
		for _, it := range items {
			if int64(it.Rev) > after && it.Rev <= rev && f.takes(it.Value) {
				out.Items = append(out.Items, it.Value)
			}
		}
		if next = more; next == "" {
			return out, nil
		}
	}
}

// revision is the moment of now.
func (s *Service) revision(ctx context.Context) (store.Rev, error) {
	return s.Store.View(ctx, func(tx *store.Tx) error {
		_, err := store.Get(tx, s.Store.Config, store.ConfigKey)
		return err
	})
}
