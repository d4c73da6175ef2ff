package store

import (
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// trimAudit removes audit records that are too old or too many, in steps of
// whole links, so that what is left can be compared with the chain at any time.
// What no link covers stays, and so does what no backup has, within a limit.
func (s *Store) trimAudit(ctx context.Context, p TrimPolicy, now time.Time) (removed int64, err error) {
	links, _, err := s.AuditChain.items(ctx)
	if err != nil {
		return 0, err
	}
	first, count, err := s.auditExtent(ctx)
	if err != nil {
		return 0, err
	}
	for _, l := range links {
		if l.Value.Through < first {
			continue
		}
		gone := removed + int64(l.Value.Count)
		old := p.AuditAge > 0 && l.Value.Through < timePrefix(now.Add(-p.AuditAge))
		many := p.AuditNumber > 0 && count-gone >= p.AuditNumber
		far := p.AuditLimit > 0 && count-gone >= p.AuditLimit
		if !old && !many || p.Exported != nil && l.Rev > *p.Exported && !far {
			break
		}
		prefix := folderPrefix(folderAudit)
		if err := s.erase(ctx, prefix, clientv3.WithRange(prefix+l.Value.Through+"\x00")); err != nil {
			return removed, wrap("delete "+folderAudit, err)
		}
		removed, first = gone, l.Value.Through+"\x00"
	}
	if p.LinkAge == 0 {
		return removed, nil
	}
	return removed, s.trimLinks(ctx, links, first, now.Add(-p.LinkAge))
}

// trimLinks removes the links whose records are gone, before the last one that
// was made before a time.
func (s *Store) trimLinks(ctx context.Context, links []Item[mesh.AuditSegment], first string, before time.Time) error {
	keep := 0
	for i, l := range links {
		if !l.Value.Sealed.Before(before) || i > 0 && links[i-1].Value.Through >= first {
			break
		}
		keep = i
	}
	if keep == 0 {
		return nil
	}
	prefix := folderPrefix(folderAuditChain)
	return wrap("delete "+folderAuditChain, s.erase(ctx, prefix, clientv3.WithRange(prefix+links[keep].Key)))
}

// auditExtent returns the id of the oldest audit record, and how many there are.
func (s *Store) auditExtent(ctx context.Context) (first string, count int64, err error) {
	prefix := folderPrefix(folderAudit)
	resp, err := s.get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return "", 0, wrap("list "+folderAudit, err)
	}
	for _, kv := range resp.Kvs {
		first = string(kv.Key[len(prefix):])
	}
	return first, resp.Count, nil
}

// AuditAt reads the links of the chain and then every audit record, the oldest
// first, as they were at one moment: that of the call. It returns ErrCompacted
// when that takes too long, and what a function returns as it is.
func (s *Store) AuditAt(ctx context.Context, links func([]mesh.AuditSegment) error, record func(Raw) error) error {
	items, at, err := s.AuditChain.items(ctx)
	if err != nil {
		return err
	}
	all := make([]mesh.AuditSegment, len(items))
	for i, it := range items {
		all[i] = it.Value
	}
	if err := links(all); err != nil {
		return err
	}
	prefix := folderPrefix(folderAudit)
	for from, to := prefix, clientv3.GetPrefixRangeEnd(prefix); ; {
		resp, err := s.get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(pageSize), clientv3.WithRev(int64(at)))
		if err != nil {
			return wrap("list "+folderAudit, err)
		}
		for _, kv := range resp.Kvs {
			if err := record(Raw{Folder: folderAudit, ID: string(kv.Key[len(prefix):]), Value: slices.Clone(kv.Value), Rev: Rev(kv.ModRevision)}); err != nil {
				return err
			}
		}
		if !resp.More {
			return nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}
