package bots

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// endsAhead is how long before its service ends the owner of a device is told.
	endsAhead = 3 * 24 * time.Hour
	// endsEvery is how often it is looked what ends, and which cores have another
	// version.
	endsEvery = time.Minute
	// endsBatch is how many things are told in one transaction.
	endsBatch = 10
)

// keepEnds tells members of devices whose service ends soon, and of cores that were
// updated, until ctx ends.
func (s *Service) keepEnds(ctx context.Context) error {
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	for {
		for _, look := range []func(context.Context) (bool, error){s.tellEnds, s.tellVersions} {
			for more := true; more; {
				var err error
				if more, err = look(ctx); err != nil && ctx.Err() == nil {
					s.Log.Warn("members not told", "err", err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tellEnds tells of the next few devices whose service ends within endsAhead and
// did not when that was looked at last. more: there are others.
func (s *Service) tellEnds(ctx context.Context) (more bool, err error) {
	devices, _, err := s.Store.Devices.List(ctx)
	if err != nil {
		return false, err
	}
	st, err := s.state(ctx)
	if err != nil {
		return false, err
	}
	now := s.now()
	horizon := now.Add(endsAhead)
	var soon []mesh.Device
	for _, d := range devices {
		if ends := d.Limits.Expires; d.State == mesh.DeviceActive && ends.After(now) && ends.After(st.Told.Ends) && !ends.After(horizon) {
			soon = append(soon, d)
		}
	}
	if len(soon) == 0 {
		return false, nil
	}
	slices.SortFunc(soon, func(a, b mesh.Device) int { return a.Limits.Expires.Compare(b.Limits.Expires) })
	if more = len(soon) > endsBatch; more {
		soon = sameEnd(soon)
		horizon = soon[len(soon)-1].Limits.Expires
	}
	_, err = s.Store.Update(ctx, func(tx *store.Tx) error {
		now, err := store.Get(tx, s.Store.BotState, store.BotStateKey)
		if absent(err) != nil || !now.Told.Ends.Equal(st.Told.Ends) {
			return err // another server was faster
		}
		for _, d := range soon {
			params := map[string]string{"device": d.Name, "until": d.Limits.Expires.UTC().Format(time.RFC3339)}
			if err := s.tellMember(tx, d.Member, mesh.NoticeExpiring, params); err != nil {
				return err
			}
		}
		return s.putState(tx, func(st *mesh.BotState) { st.Told.Ends = horizon })
	})
	return more && err == nil, err
}

// sameEnd is the beginning of a sorted list, with all that end together with its
// last: up to where people were told is a time.
func sameEnd(all []mesh.Device) []mesh.Device {
	n := endsBatch
	for n < len(all) && all[n].Limits.Expires.Equal(all[n-1].Limits.Expires) {
		n++
	}
	return all[:n]
}

// tellVersions tells members of cores of theirs that have another version than they
// knew of. Of a core that is seen for the first time it takes note alone.
func (s *Service) tellVersions(ctx context.Context) (more bool, err error) {
	cores, _, err := s.Store.Cores.List(ctx)
	if err != nil {
		return false, err
	}
	users, _, err := s.Store.Telegram.List(ctx)
	if err != nil {
		return false, err
	}
	st, err := s.state(ctx)
	if err != nil {
		return false, err
	}
	linked := map[mesh.MemberID]bool{}
	for _, u := range users {
		linked[u.Member] = true
	}
	known, news := map[mesh.CoreID]string{}, []mesh.Core{}
	for _, id := range slices.Sorted(maps.Keys(cores)) {
		c := cores[id]
		if c.Version == "" || c.Member == "" || !linked[c.Member] {
			continue
		}
		known[id] = c.Version
		if was := st.Told.Versions[id]; was != "" && was != c.Version {
			known[id] = was
			news = append(news, c)
		}
	}
	more = len(news) > endsBatch
	news = news[:min(len(news), endsBatch)]
	for _, c := range news {
		known[c.ID] = c.Version
	}
	if maps.Equal(known, st.Told.Versions) {
		return false, nil
	}
	_, err = s.Store.Update(ctx, func(tx *store.Tx) error {
		now, err := store.Get(tx, s.Store.BotState, store.BotStateKey)
		if absent(err) != nil || !maps.Equal(now.Told.Versions, st.Told.Versions) {
			return err // another server was faster
		}
		for _, c := range news {
			if err := s.tellMember(tx, c.Member, mesh.NoticeCoreNew, map[string]string{"core": c.Name, "version": c.Version}); err != nil {
				return err
			}
		}
		return s.putState(tx, func(st *mesh.BotState) { st.Told.Versions = known })
	})
	return more && err == nil, err
}
