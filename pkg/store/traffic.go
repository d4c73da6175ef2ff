package store

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// TrafficKey is the id of the one object in Store.Progress.
const TrafficKey = "traffic"

// MeterID is the id of an object in Store.Hours: of an hour, a core and one of
// its meters. part tells several of them apart.
func MeterID(h mesh.Hour, c mesh.CoreID, meter string, part int) string {
	return fmt.Sprintf("%s.%s.%s.%d", h, c, meter, part)
}

// HoursFrom reads what was counted in an hour and later. It is of one moment.
func (s *Store) HoursFrom(ctx context.Context, h mesh.Hour) ([]mesh.MeterHour, error) {
	out, err := s.hoursFrom(ctx, h, 0)
	return out, wrap("list hours", err)
}

func (s *Store) hoursFrom(ctx context.Context, h mesh.Hour, at Rev) ([]mesh.MeterHour, error) {
	prefix := folderPrefix(folderHours)
	entries, _, err := s.listRange(ctx, prefix+string(h), clientv3.GetPrefixRangeEnd(prefix), at)
	if err != nil {
		return nil, err
	}
	out := make([]mesh.MeterHour, len(entries))
	for i, e := range entries {
		if out[i], err = s.Hours.decode([]byte(e.key), e.data); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// TrimHours removes what was counted before an hour.
func (s *Store) TrimHours(ctx context.Context, before mesh.Hour) (removed int64, err error) {
	prefix := folderPrefix(folderHours)
	removed, err = s.deleteUpTo(ctx, prefix, prefix+string(before), -1)
	return removed, wrap("trim hours", err)
}

// TrafficNow is what all have moved up to now.
type TrafficNow struct {
	Devices map[mesh.DeviceID]mesh.DeviceTotal
	Cores   map[mesh.CoreID]mesh.Traffic
	All     mesh.Traffic
}

// Traffic adds up totals and the hours since, all as of one moment. What guests
// have moved is of the totals alone.
func (s *Store) Traffic(ctx context.Context) (TrafficNow, error) { return s.TrafficOf(ctx, nil) }

// TrafficOf is Traffic with what guests have moved up to now.
func (s *Store) TrafficOf(ctx context.Context, guestOf mesh.GuestOf) (TrafficNow, error) {
	for range 3 { // a page can be compacted away between two requests
		out, err := s.traffic(ctx, guestOf)
		if errors.Is(err, rpctypes.ErrCompacted) {
			continue
		}
		return out, wrap("read traffic", err)
	}
	return TrafficNow{}, wrap("read traffic", ErrCompacted)
}

func (s *Store) traffic(ctx context.Context, guestOf mesh.GuestOf) (TrafficNow, error) {
	entries, at, err := s.list(ctx, s.Totals.prefix(), 0)
	if err != nil {
		return TrafficNow{}, err
	}
	shards := map[string]mesh.TrafficTotals{}
	for _, e := range entries {
		if shards[s.Totals.idOf([]byte(e.key))], err = s.Totals.decode([]byte(e.key), e.data); err != nil {
			return TrafficNow{}, err
		}
	}
	progress, _, err := s.list(ctx, s.Progress.prefix(), at)
	if err != nil {
		return TrafficNow{}, err
	}
	var from mesh.Hour
	for _, e := range progress {
		p, err := s.Progress.decode([]byte(e.key), e.data)
		if err != nil {
			return TrafficNow{}, err
		}
		from = p.Counted.Next()
	}
	hours, err := s.hoursFrom(ctx, from, at)
	if err != nil {
		return TrafficNow{}, err
	}
	return sumTraffic(shards, hours, guestOf), nil
}

func sumTraffic(shards map[string]mesh.TrafficTotals, hours []mesh.MeterHour, guestOf mesh.GuestOf) TrafficNow {
	parts := SplitHours(hours)
	for id, list := range parts {
		t := shards[id]
		for _, h := range list {
			t.Add(h, guestOf)
		}
		shards[id] = t
	}
	out := TrafficNow{Devices: map[mesh.DeviceID]mesh.DeviceTotal{}, Cores: map[mesh.CoreID]mesh.Traffic{}}
	for _, t := range shards {
		maps.Copy(out.Devices, t.Devices)
		for c, n := range t.Cores {
			out.Cores[c] = out.Cores[c].Plus(n)
			out.All = out.All.Plus(n)
		}
	}
	return out
}

// SplitHours sorts what was counted by shards.
func SplitHours(hours []mesh.MeterHour) map[string][]mesh.MeterHour {
	out := map[string][]mesh.MeterHour{}
	for _, h := range hours {
		parts := map[string]map[mesh.DeviceID]mesh.Traffic{}
		for id, n := range h.Devices {
			shard := mesh.TrafficShard(id)
			if parts[shard] == nil {
				parts[shard] = map[mesh.DeviceID]mesh.Traffic{}
			}
			parts[shard][id] = n
		}
		for shard, devices := range parts {
			one := h
			one.Devices = devices
			out[shard] = append(out[shard], one)
		}
	}
	return out
}
