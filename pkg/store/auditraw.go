package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// AuditAfter reads up to limit audit records as they are stored, with ids above
// after, the oldest first, and the id to go on after, "" at the end.
func (s *Store) AuditAfter(ctx context.Context, after string, limit int) ([]Raw, string, error) {
	prefix := folderPrefix(folderAudit)
	from := prefix
	if after != "" {
		key, err := keyOf(folderAudit, after)
		if err != nil {
			return nil, "", err
		}
		from = key + "\x00"
	}
	resp, err := s.get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(int64(limit)))
	if err != nil {
		return nil, "", wrap("list "+folderAudit, err)
	}
	out := make([]Raw, 0, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		out = append(out, Raw{Folder: folderAudit, ID: string(kv.Key[len(prefix):]), Value: kv.Value, Rev: Rev(kv.ModRevision)})
	}
	next := ""
	if resp.More && len(out) > 0 {
		next = out[len(out)-1].ID
	}
	return out, next, nil
}
