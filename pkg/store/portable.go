package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Raw is an object as it is stored, whatever its kind.
type Raw struct {
	Folder, ID string
	Value      []byte // a JSON object with schema and minReader
	Rev        Rev    // of its last change; not looked at by Import
}

// exported are the folders of which a backup is made, in the order in which they
// are read. What is missing follows from the rest, or only ages:
//
//	routes targets names spent
//	                       derived, and derived again by Import and the
//	                       reconcilers
//	status alive backupstate acmestate election
//	                       what is so at the moment
//	alerts outbox chats threads shown telegramcodes
//	                       what is said at the moment; codes that a lost mesh gave
//	                       out link nobody to its successor
//	reach cellwatch cellusage relayed meteraudit kubestate
//	                       what is seen of the present way to cores; what is usual
//	                       is seen again in a week
//	deletions once importing
//	                       the store's own; a certificate request that was used
//	                       once does not outlive the servers that saw it
//	events hours progress  age, and are trimmed; what is in no total yet, cores
//	                       tell again
//
// audit is not among them because it is read by itself, from a record on; Import
// takes it.
var exported = [...]string{
	folderConfig, folderCA, folderServers, folderAdmins, folderBackup, folderMembers, folderCells, folderCores, folderEntries,
	folderDevices, folderTokens, folderCerts, folderRevocations, folderRollouts,
	folderACME, folderSubCert, folderCellCerts,
	folderTelegram, folderHooks, folderKubes, folderAuditChain,
	folderTotals,
}

// marksChange says whether a change in the folder is one of what backups hold.
func marksChange(folder string) bool {
	return folder == folderAudit || folder != folderTotals && slices.Contains(exported[:], folder)
}

// portable is a collection without its types.
type portable interface {
	// unpack decodes an object, and returns it and the labels that it holds.
	unpack(id string, data []byte) (any, []label, error)
}

// portables are the collections of which Import takes objects, by folder.
func (s *Store) portables() map[string]portable {
	return map[string]portable{
		folderConfig: s.Config, folderCA: s.CA, folderServers: s.Servers, folderAdmins: s.Admins, folderBackup: s.Backup,
		folderMembers: s.Members, folderCells: s.Cells, folderCores: s.Cores, folderEntries: s.Entries,
		folderDevices: s.Devices, folderTokens: s.Tokens, folderCerts: s.Certs, folderRevocations: s.Revocations,
		folderACME: s.ACME, folderSubCert: s.SubCert, folderCellCerts: s.CellCerts,
		folderTelegram: s.Telegram, folderHooks: s.Hooks, folderKubes: s.Kubes, folderAuditChain: s.AuditChain,
		folderRollouts: s.Rollouts, folderTotals: s.Totals, folderAudit: s.Audit,
	}
}

// Export reads everything that a backup holds as it was at one moment, or at 0
// as it is now, and returns that moment. Objects come in the order of their ids
// within a folder. It returns ErrCompacted for a moment that is too long ago, and
// ErrConflict while an import is not complete.
func (s *Store) Export(ctx context.Context, at Rev) ([]Raw, Rev, error) {
	for range 3 { // a page of now can be compacted away between two requests
		out, rev, err := s.export(ctx, at)
		if at == 0 && errors.Is(err, rpctypes.ErrCompacted) {
			continue
		}
		return out, rev, wrap("export", err)
	}
	return nil, 0, wrap("export", ErrCompacted)
}

func (s *Store) export(ctx context.Context, at Rev) ([]Raw, Rev, error) {
	var opts []clientv3.OpOption
	if at != 0 {
		opts = append(opts, clientv3.WithRev(int64(at)))
	}
	resp, err := s.get(ctx, importingKey, opts...)
	if err != nil {
		return nil, 0, err
	}
	if len(resp.Kvs) > 0 {
		return nil, 0, errHalf
	}
	if at == 0 {
		at = Rev(resp.Header.Revision)
	}
	var out []Raw
	for _, folder := range exported {
		prefix := folderPrefix(folder)
		entries, _, err := s.list(ctx, prefix, at)
		if err != nil {
			return nil, 0, err
		}
		out = slices.Grow(out, len(entries))
		for _, e := range entries {
			out = append(out, Raw{Folder: folder, ID: e.key[len(prefix):], Value: e.data, Rev: e.rev})
		}
	}
	return out, at, nil
}

// ChangedSince says whether anything that Export or the audit shows was written
// after a moment, and returns the moment of the answer: one read of one key.
// Traffic totals alone are no change; whoever wants them goes by the clock.
func (s *Store) ChangedSince(ctx context.Context, after Rev) (bool, Rev, error) {
	resp, err := s.get(ctx, changedKey)
	if err != nil {
		return false, 0, wrap("look for changes", err)
	}
	now := Rev(resp.Header.Revision)
	changed := after == 0 || after > now // the store went back
	for _, kv := range resp.Kvs {
		changed = changed || Rev(kv.ModRevision) > after
	}
	return changed, now, nil
}

// inspect returns the labels of an object if all is well with it.
func (c *Collection[K, V]) inspect(id string, data []byte) ([]label, error) {
	_, labels, err := c.unpack(id, data)
	return labels, err
}

func (c *Collection[K, V]) unpack(id string, data []byte) (any, []label, error) {
	key, err := keyOf(c.kind.folder, id)
	if err != nil {
		return nil, nil, err
	}
	v, err := c.decode([]byte(key), data)
	if err != nil {
		return nil, nil, err
	}
	if c.id != nil && string(c.id(v)) != id {
		return nil, nil, fmt.Errorf("store: read %s/%s: the object says it is %q: %w", c.kind.folder, id, mesh.Quotable(string(c.id(v))), mesh.ErrInvalid)
	}
	if c.names == nil {
		return v, nil, nil
	}
	labels := c.names(v)
	for _, l := range labels {
		if err := l.check(); err != nil {
			return nil, nil, fmt.Errorf("store: read %s/%s: %w", c.kind.folder, id, err)
		}
	}
	return v, labels, nil
}

// check returns ErrInvalid for a label that could not have been given.
func (l label) check() error {
	if l.within != folderSuffixes {
		return mesh.CheckName(l.name)
	}
	if n, err := mesh.ParseServerName(l.name); err != nil || string(n) != l.name {
		return fmt.Errorf("suffix %q: want a folded DNS name: %w", mesh.Quotable(l.name), mesh.ErrInvalid)
	}
	return nil
}
