package bots

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// newsAgain is how long after a watch that broke the next one begins.
	newsAgain = time.Second
	// newsBack is how many of the last events are looked at by a new leader.
	newsBack = 1000
)

// keepNews tells members of events that concern them. Up to which event that was
// done stands in the store, so that the next leader goes on there.
func (s *Service) keepNews(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.follow(ctx); err != nil && ctx.Err() == nil {
			s.Log.Debug("events not followed", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(newsAgain):
		}
	}
	return nil
}

// follow tells of the events since the last that was told, and of those that come.
func (s *Service) follow(ctx context.Context) error {
	st, err := s.state(ctx)
	if err != nil {
		return err
	}
	told, now := store.Rev(st.Told.Events), store.Rev(0)
	if now, err = s.Store.View(ctx, func(tx *store.Tx) error {
		_, err := store.Get(tx, s.Store.Config, store.ConfigKey)
		return err
	}); err != nil {
		return err
	}
	if told == 0 || told > now { // there was no bot before, or the store began anew
		if err := s.noteNews(ctx, now); err != nil {
			return err
		}
		told = now
	}
	last, _, err := s.Store.Events.Latest(ctx, "", newsBack)
	if err != nil {
		return err
	}
	slices.SortFunc(last, func(a, b store.Item[mesh.Event]) int { return int(a.Rev - b.Rev) })
	for _, it := range last {
		if it.Rev > told && it.Rev <= now {
			if err := s.news(ctx, it.Value, it.Rev); err != nil {
				return err
			}
		}
	}
	for ev, err := range s.Store.Events.Watch(ctx, now) {
		if err == nil && !ev.Deleted {
			err = s.news(ctx, ev.Value, ev.Rev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) noteNews(ctx context.Context, rev store.Rev) error {
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		return s.putState(tx, func(st *mesh.BotState) { st.Told.Events = int64(rev) })
	})
	return err
}

// news tells whom an event concerns, and notes that it was told.
func (s *Service) news(ctx context.Context, e mesh.Event, rev store.Rev) error {
	tell := s.teller(e)
	if tell == nil {
		return nil
	}
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		st, err := store.Get(tx, s.Store.BotState, store.BotStateKey)
		if absent(err) != nil || st.Told.Events >= int64(rev) {
			return err
		}
		if err := tell(tx, &st.Told); err != nil {
			return err
		}
		st.Told.Events = int64(rev)
		return s.putState(tx, func(now *mesh.BotState) { now.Told = st.Told })
	})
	return err
}

// teller is what to do about an event; nil: nothing.
func (s *Service) teller(e mesh.Event) func(*store.Tx, *mesh.BotTold) error {
	kind, id, _ := strings.Cut(e.Object, "/")
	switch e.Type {
	case mesh.EventCoreLost, mesh.EventCoreReady, mesh.EventCertExpiring:
		if kind != string(mesh.RoleCore) {
			return nil
		}
		return func(tx *store.Tx, told *mesh.BotTold) error { return s.ofCore(tx, told, e.Type, mesh.CoreID(id)) }
	case mesh.EventQuotaReached:
		if kind+"/" != mesh.ObjectDevice {
			return nil
		}
		return func(tx *store.Tx, _ *mesh.BotTold) error { return s.ofDevice(tx, mesh.DeviceID(id)) }
	case mesh.EventCellCompromised, mesh.EventCellRestored, mesh.EventCellRetired:
		return func(tx *store.Tx, _ *mesh.BotTold) error { return s.ofCell(tx, e.Type, mesh.CellID(id)) }
	}
	return nil
}

func (s *Service) ofCore(tx *store.Tx, told *mesh.BotTold, what mesh.EventType, id mesh.CoreID) error {
	c, err := store.Get(tx, s.Store.Cores, id)
	if err != nil || c.Revoked {
		return absent(err)
	}
	params := map[string]string{"core": c.Name}
	kind := mesh.NoticeCoreLost
	switch what {
	case mesh.EventCoreLost:
		if told.Lost == nil {
			told.Lost = map[mesh.CoreID]bool{}
		}
		told.Lost[id] = true
	case mesh.EventCoreReady:
		if !told.Lost[id] {
			return nil
		}
		delete(told.Lost, id)
		kind = mesh.NoticeCoreBack
	default:
		end, err := s.certEnd(tx, id)
		if err != nil || !end.After(s.now()) {
			return err
		}
		kind, params["until"] = mesh.NoticeCoreCert, end.UTC().Format(time.RFC3339)
	}
	return s.tellMember(tx, c.Member, kind, params)
}

// certEnd is when the core's certificate that ends last does.
func (s *Service) certEnd(tx *store.Tx, id mesh.CoreID) (end time.Time, err error) {
	all, err := store.List(tx, s.Store.Certs)
	for _, c := range all {
		if c.Node == string(mesh.RoleCore)+"/"+string(id) && c.NotAfter.After(end) {
			end = c.NotAfter
		}
	}
	return end, err
}

func (s *Service) ofDevice(tx *store.Tx, id mesh.DeviceID) error {
	d, err := store.Get(tx, s.Store.Devices, id)
	if err != nil {
		return absent(err)
	}
	return s.tellMember(tx, d.Member, mesh.NoticeSpent, map[string]string{"device": d.Name})
}

// ofCell writes to all whose devices are in the cell; the outbox spreads it.
func (s *Service) ofCell(tx *store.Tx, what mesh.EventType, id mesh.CellID) error {
	c, err := store.Get(tx, s.Store.Cells, id)
	if err != nil {
		return absent(err)
	}
	state := "compromised"
	switch what {
	case mesh.EventCellRestored:
		state = "restored"
	case mesh.EventCellRetired:
		state = "retired"
	}
	return s.tell(tx, toMembers+string(id), mesh.NoticeCellMoved, map[string]string{"cell": c.Name, "state": state})
}

// tellMember tells everybody who is linked as the member.
func (s *Service) tellMember(tx *store.Tx, id mesh.MemberID, kind mesh.NoticeKind, params map[string]string) error {
	m, err := store.Get(tx, s.Store.Members, id)
	if err != nil || m.State == mesh.MemberArchived {
		return absent(err)
	}
	users, err := store.List(tx, s.Store.Telegram)
	if err != nil {
		return err
	}
	told := 0
	for _, u := range users {
		if u.Member != id || u.State == mesh.TelegramBlocked {
			continue
		}
		if told++; told > maxOperators {
			return nil
		}
		if err := s.tell(tx, mesh.ToTelegram(u.Telegram), kind, params); err != nil {
			return err
		}
	}
	return nil
}
