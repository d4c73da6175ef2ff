package backups

import (
	"context"
	"crypto/x509"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/store"
)

// auditPage is how many audit records are read at once.
const auditPage = 500

// Draft draws up the backup of now, as what it changes in the base.
func (s *Service) Draft(ctx context.Context, base chores.BackupBase, put func(backup.File) error) (d *chores.BackupDraft, err error) {
	t, err := s.current(base.Epoch)
	if err != nil {
		return nil, err
	}
	defer recovered(&err)
	began := time.Now()
	r, err := s.renderer()
	if err != nil {
		return nil, err
	}
	raws, rev, err := s.Store.Export(ctx, 0)
	if err != nil {
		return nil, err
	}
	raws, totals, at := s.thin(t, raws)
	sum, err := r.Draft(ctx, backup.Files(base.Files), s.draft(t, raws, rev), s.records(ctx), put)
	if err != nil {
		return nil, err
	}
	s.metric().drafts.Observe(time.Since(began).Seconds())
	s.set(func() {
		t.totals, t.totalsAt = totals, at
		if rev > t.seen {
			t.seen = rev
		}
	})
	if !sum.Changed {
		return nil, nil
	}
	return &chores.BackupDraft{Message: sum.Message(), Revision: sum.Revision, Time: sum.Time, Full: sum.Full}, nil
}

// thin puts traffic totals of before in the place of those of now, until it is
// time for new ones: each hour they are others, and large. It returns what is to
// be kept when the draft is made, and when that was read.
func (s *Service) thin(t *term, raws []store.Raw) (out, totals []store.Raw, at time.Time) {
	isTotals := func(o store.Raw) bool { return o.Folder == store.FolderTotals }
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); t.totalsAt.IsZero() || now.Sub(t.totalsAt) >= time.Duration(t.set.TotalsEvery) {
		for _, o := range raws {
			if isTotals(o) {
				totals = append(totals, o)
			}
		}
		return raws, totals, now
	}
	return append(slices.DeleteFunc(raws, isTotals), t.totals...), t.totals, t.totalsAt
}

// draft is what is to be backed up.
func (s *Service) draft(t *term, raws []store.Raw, rev store.Rev) backup.State {
	s.mu.Lock()
	set := t.set
	s.mu.Unlock()
	st := backup.State{
		Mesh: s.Mesh, Epoch: t.epoch.Mesh, Leader: t.epoch.Leader, Revision: int64(rev), Time: s.now(),
		Objects: make([]backup.Object, 0, len(raws)), Keys: s.Keys(),
		VerifyRecipient: set.VerifyRecipient, Plaintext: set.PlaintextObjects,
	}
	for _, o := range raws {
		st.Objects = append(st.Objects, backup.Object{Folder: o.Folder, ID: o.ID, JSON: o.Value})
	}
	for _, r := range set.Recipients {
		st.Recipients = append(st.Recipients, backup.Recipient{Name: r.Name, Key: r.Key, Protected: r.Protected})
	}
	return st
}

// renderer signs with this server's key of now.
func (s *Service) renderer() (*backup.Renderer, error) {
	signer, err := s.signing()
	if err != nil {
		return nil, err
	}
	r := &backup.Renderer{Signer: signer.key}
	for _, der := range signer.chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("backups: certificate of the signing key: %w", err)
		}
		r.Chain = append(r.Chain, c)
	}
	return r, nil
}

// records reads audit records, the oldest first.
func (s *Service) records(ctx context.Context) backup.AuditSource {
	return func(after string) iter.Seq2[backup.Object, error] {
		return func(yield func(backup.Object, error) bool) {
			for {
				page, next, err := s.Store.AuditAfter(ctx, after, auditPage)
				if err != nil {
					yield(backup.Object{}, err)
					return
				}
				for _, o := range page {
					if !yield(backup.Object{Folder: o.Folder, ID: o.ID, JSON: o.Value}, nil) {
						return
					}
				}
				if next == "" {
					return
				}
				after = next
			}
		}
	}
}

// recovered makes an error of a panic: a library that breaks over what it was
// given must not take etcd and the CA with it.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("backups: panic: %v\n%s", p, debug.Stack())
	}
}
