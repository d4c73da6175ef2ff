package audits

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/audit"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Check compares all audit records with the chain, as they are at one moment, and
// the chain with links that are known from elsewhere.
func Check(ctx context.Context, st *store.Store, now time.Time, anchors ...audit.Anchor) (audit.Report, error) {
	for range 3 { // what is read can be compacted away meanwhile
		r, err := check(ctx, st, now, anchors)
		if !errors.Is(err, store.ErrCompacted) {
			return r, err
		}
	}
	return audit.Report{}, fmt.Errorf("audits: check: %w", store.ErrCompacted)
}

func check(ctx context.Context, st *store.Store, now time.Time, anchors []audit.Anchor) (audit.Report, error) {
	var c *audit.Checker
	err := st.AuditAt(ctx, func(links []mesh.AuditSegment) error {
		c = audit.NewChecker(links, anchors...)
		return nil
	}, func(r store.Raw) error {
		c.Add(audit.Record{ID: r.ID, JSON: r.Value})
		return nil
	})
	if err != nil {
		return audit.Report{}, fmt.Errorf("audits: check: %w", err)
	}
	kept := store.DefaultTrim()
	return c.End(&audit.Keep{Age: kept.AuditAge, Number: int(kept.AuditNumber), Links: kept.LinkAge}, now), nil
}

// check tells people of what is not as it was chained, once.
func (s *Service) check(ctx context.Context) error {
	r, err := Check(ctx, s.Store, time.Now())
	if err != nil || r.Wrong == 0 {
		return err
	}
	s.Log.Error("audit records are not as they were chained", "count", r.Wrong)
	first := r.Faults[0].String()
	sum := sha256.Sum256([]byte(first))
	return s.Store.TellOnce(ctx, "audit-broken "+hex.EncodeToString(sum[:]), mesh.Event{
		Type: mesh.EventAuditBroken, Severity: mesh.Critical, Object: "audit/chain",
		Cause:  fmt.Sprintf("%d audit records or links are not as they were: %s", r.Wrong, first),
		Advice: "somebody wrote to etcd past this program, or it was damaged: meshctl admin audit verify, and with --from against a backup",
	})
}
