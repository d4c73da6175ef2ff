package store

import (
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// The chain over the audit records grows by links that cover them in the order
// of their ids. Ids come from the clocks of the servers, so a record could be
// written that belongs before what a link has covered. None is: every change
// compares that its own id lies behind the chain, and takes another id if not.

// chained is the value of the key of that name: how far the chain goes.
type chained struct {
	Through string `json:"through"` // id of the last record that a link covers
	Link    string `json:"link"`    // its number
}

// chainedBefore is what the value begins with. etcd compares values as text, and
// ids have one length, so that a value is less than this and an id exactly if
// the chain ends before that id.
const chainedBefore = `{"schema":1,"minReader":1,"through":"`

// behindChain is the condition that the record's id lies behind the chain. A key
// that is not there is less than nothing, so until this process has met the key
// it compares that there is none.
func (tx *Tx) behindChain() []clientv3.Cmp {
	if tx.mode != auditing {
		return nil
	}
	if tx.s.chained.Load() == nil {
		return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(chainedKey), "=", 0)}
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.Value(chainedKey), "<", chainedBefore+tx.stamp)}
}

// learnChain takes note of how far the chain goes, from the Else branch of an
// audited transaction.
func (tx *Tx) learnChain(resp *clientv3.TxnResponse) error {
	if tx.mode != auditing {
		return nil
	}
	for _, kv := range resp.Responses[1].GetResponseRange().GetKvs() {
		c, err := codec.Decode[chained](kv.Value)
		if err != nil {
			return fmt.Errorf("store: read how far the audit is chained: %w", err)
		}
		tx.s.chained.Store(&c.Through)
	}
	return nil
}

// stampOf is an id for a change of now: one that was chosen, unless the chain has
// gone beyond it. Then no transaction that has it can be made any more.
func (s *Store) stampOf(stamp string) string {
	through := s.chained.Load()
	if through == nil || stamp > *through {
		return stamp
	}
	at, _ := timeOf(*through)
	return NewTimeID(at.Add(time.Microsecond))
}

// LastLink returns the last link of the chain over the audit records; a zero one
// when there is none.
func LastLink(tx *Tx) (mesh.AuditSegment, error) {
	e, err := tx.read(chainedKey, true)
	if err != nil || e.rev == 0 {
		return mesh.AuditSegment{}, err
	}
	c, err := codec.Decode[chained](e.data)
	if err != nil {
		return mesh.AuditSegment{}, fmt.Errorf("store: read how far the audit is chained: %w", err)
	}
	return Get(tx, tx.s.AuditChain, c.Link)
}

// Unchained returns the audit records as they are stored that follow a link and
// were written before a time, the oldest first, at most limit. The transaction
// fails to commit when another appears among them.
func Unchained(tx *Tx, last mesh.AuditSegment, before time.Time, limit int) ([]Raw, error) {
	prefix := folderPrefix(folderAudit)
	from, to := prefix, prefix+timePrefix(before)
	if last.Through != "" {
		from = prefix + last.Through + "\x00"
	}
	if from >= to {
		return nil, nil
	}
	opts := []clientv3.OpOption{clientv3.WithRange(to), clientv3.WithLimit(int64(limit))}
	if tx.rev != 0 {
		opts = append(opts, clientv3.WithRev(int64(tx.rev)))
	}
	resp, err := tx.fetch(from, opts...)
	if err != nil {
		return nil, tx.translate("list "+folderAudit, err)
	}
	if tx.rev == 0 {
		tx.rev = Rev(resp.Header.Revision)
	}
	var out []Raw
	for _, kv := range resp.Kvs {
		out = append(out, Raw{Folder: folderAudit, ID: string(kv.Key[len(prefix):]), Value: kv.Value, Rev: Rev(kv.ModRevision)})
	}
	if len(out) > 0 {
		end := prefix + out[len(out)-1].ID + "\x00"
		tx.also = append(tx.also, clientv3.Compare(clientv3.ModRevision(from), "<", int64(tx.rev)+1).WithRange(end))
	}
	return out, nil
}

// AddLink puts a link at the end of the chain.
func AddLink(tx *Tx, link mesh.AuditSegment) error {
	if tx.mode == viewing {
		return errReadOnly
	}
	if err := create(tx, tx.s.AuditChain, link.ID, link); err != nil {
		return err
	}
	data, err := codec.Encode(chained{Through: link.Through, Link: link.ID})
	if err != nil {
		return fmt.Errorf("store: chain audit: %w", err)
	}
	if _, err := tx.read(chainedKey, true); err != nil {
		return err
	}
	tx.put(chainedKey, data, nil)
	return nil
}

// chain notes how far the imported chain goes.
func (p *importPlan) chain() ([]clientv3.Op, error) {
	if p.last.ID == "" {
		return nil, nil
	}
	data, err := codec.Encode(chained{Through: p.last.Through, Link: p.last.ID})
	return []clientv3.Op{clientv3.OpPut(chainedKey, string(data))}, err
}
