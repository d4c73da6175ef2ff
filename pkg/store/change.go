package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// By is who makes a change.
type By struct {
	Actor   mesh.Actor
	Request string // id of the request that asked for it
	Via     string // how the actor spoke, if not with a certificate
}

// maxConflicts bounds how often a transaction runs.
const maxConflicts = 100

// errRaced: something the attempt read has changed since.
var errRaced = errors.New("raced")

// View runs f on the state of one moment, which it returns; 0 if f read
// nothing. f does not write.
func (s *Store) View(ctx context.Context, f func(*Tx) error) (Rev, error) {
	return s.transact(ctx, viewing, nil, f)
}

// Update runs f and writes what it changed, all or nothing. It is for derived
// kinds; others are refused with ErrInvalid. f may run several times and must
// have no other effect. f's error is returned as it is, and nothing is written.
// It returns the moment of the write, ErrConflict when the state changed too
// often, and ErrUnavailable when etcd does not answer; whether the write was
// made is then not known, and doing it again does no harm. Under the context of
// Lead it returns ErrDeposed once the office is another's.
func (s *Store) Update(ctx context.Context, f func(*Tx) error) (Rev, error) {
	return s.transact(ctx, deriving, nil, f)
}

// Change is Update for every kind. Each object it changes, before and after with
// secrets redacted, is in one audit record, written in the same etcd
// transaction. action is a word or two for people: "member add". Under the
// context of Once it returns ErrDone when what that names was done before.
func (s *Store) Change(ctx context.Context, by By, action string, f func(*Tx) error) (Rev, error) {
	if by.Actor == "" || action == "" {
		return 0, fmt.Errorf("store: change: who and what must be said: %w", mesh.ErrInvalid)
	}
	return s.transact(ctx, auditing, &mesh.AuditRecord{Actor: by.Actor, Via: by.Via, Request: by.Request, Action: action}, f)
}

// transact runs f until its transaction commits. After it has lost once it waits
// for its turn, so that in one process only one transaction at a time runs
// again; the others are in their first attempt.
func (s *Store) transact(ctx context.Context, m mode, audit *mesh.AuditRecord, f func(*Tx) error) (Rev, error) {
	now := time.Now().UTC()
	stamp := NewTimeID(now)
	for n := range maxConflicts {
		if audit != nil {
			stamp = s.stampOf(stamp)
			audit.ID, audit.Time = stamp, now
		}
		rev, err := s.attempt(ctx, s.begin(ctx, m, stamp), audit, f)
		if !errors.Is(err, errRaced) && !errors.Is(err, errStale) {
			return rev, err
		}
		if n == 0 {
			select {
			case s.turn <- struct{}{}:
				defer func() { <-s.turn }()
			case <-ctx.Done():
				return 0, wrap("commit", ctx.Err())
			}
			continue
		}
		if err := pause(ctx, n-1); err != nil {
			return 0, wrap("commit", err)
		}
	}
	return 0, fmt.Errorf("store: commit: the state changed %d times meanwhile: %w", maxConflicts, mesh.ErrConflict)
}

func (s *Store) attempt(ctx context.Context, tx *Tx, audit *mesh.AuditRecord, f func(*Tx) error) (Rev, error) {
	once := onceOf(ctx, tx.mode)
	if err := once.unmade(tx); err != nil {
		return 0, err
	}
	if err := f(tx); err != nil {
		return 0, err
	}
	if len(tx.ops()) == 0 && len(tx.seen) == 0 {
		return tx.rev, nil
	}
	if audit != nil {
		if err := tx.audit(*audit); err != nil {
			return 0, err
		}
	}
	if err := once.mark(tx); err != nil {
		return 0, err
	}
	rev, err := tx.commit(ctx)
	once.made(err)
	return rev, err
}

// commit writes, repeating the very same etcd transaction while its outcome is
// not known. It can succeed once: an audited one compares that its own audit
// record is absent, any other compares what it writes. So a refusal is either
// another's change or our own earlier try, and what is read in the Else branch,
// at the same moment, tells which.
func (tx *Tx) commit(ctx context.Context) (Rev, error) {
	ops := tx.ops()
	cmps := slices.Concat(tx.compares(), tx.also, tx.behindChain(), tx.fence.holds())
	if len(ops) > maxOps || len(cmps) > maxOps {
		return 0, mesh.WithHint(fmt.Errorf("store: commit: too much in one change, %d writes and %d conditions: %w", len(ops), len(cmps), mesh.ErrInvalid),
			"change fewer objects at once")
	}
	witness := append(tx.witnesses(ops), tx.fence.show()...)
	var resp *clientv3.TxnResponse
	unsure, unsureBefore := false, false // of any try, and of one before the last
	err := tx.s.retry(ctx, func(ctx context.Context) (err error) {
		resp, err = tx.s.client.Txn(ctx).If(cmps...).Then(ops...).Else(witness...).Commit()
		unsureBefore = unsure
		unsure = unsure || err != nil
		return err
	})
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound) && !unsureBefore:
		tx.s.eventsUnder.Store(0) // somebody ended the lease of events: have another
		return 0, errRaced
	case err != nil:
		return 0, undecided(err)
	case resp.Succeeded:
		return Rev(resp.Header.Revision), nil
	case unsure:
		if rev := tx.own(resp, ops); rev != 0 {
			return rev, nil
		}
	}
	if tx.fence.broken(resp.Responses) {
		return 0, ErrDeposed
	}
	if err := tx.learnChain(resp); err != nil {
		return 0, err
	}
	return 0, errRaced
}

func undecided(err error) error {
	wrapped := wrap("commit", err)
	if transient(err) || errors.Is(err, context.Canceled) {
		return mesh.WithHint(wrapped, "whether the change was made is not known: look before repeating it")
	}
	return wrapped
}

// witnesses are the keys that tell whether the transaction was made.
func (tx *Tx) witnesses(ops []clientv3.Op) []clientv3.Op {
	if tx.mode == auditing {
		return []clientv3.Op{clientv3.OpGet(folderPrefix(folderAudit) + tx.stamp), clientv3.OpGet(chainedKey)}
	}
	var out []clientv3.Op
	for _, op := range ops {
		out = append(out, clientv3.OpGet(string(op.KeyBytes())))
	}
	return out
}

// own returns the moment at which an earlier try of this transaction was made,
// or 0. The audit record's key is unique to the transaction. Without one, all
// keys must hold what was written since the moment of reading; that another
// wrote just the same is then of no consequence.
func (tx *Tx) own(resp *clientv3.TxnResponse, ops []clientv3.Op) Rev {
	if tx.mode == auditing {
		if kvs := resp.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
			return Rev(kvs[0].CreateRevision)
		}
		return 0
	}
	made := tx.rev
	for i, op := range ops {
		kvs := resp.Responses[i].GetResponseRange().GetKvs()
		switch {
		case op.IsDelete() && len(kvs) == 0:
		case op.IsPut() && len(kvs) == 1 && slices.Equal(kvs[0].Value, op.ValueBytes()) && Rev(kvs[0].ModRevision) > tx.rev:
			made = max(made, Rev(kvs[0].ModRevision))
		default:
			return 0
		}
	}
	return made
}
