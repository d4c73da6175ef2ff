package adminsvc

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/certs"
	"github.com/meshctl/meshctl/pkg/store"
)

// maxChains bounds one upload.
const maxChains = 50

// cellRequests shows what cores of a cell want certified.
func (s *Service) cellRequests(ctx context.Context, req admin.CellRequestsRequest) (admin.List[admin.CellRequestView], error) {
	var out admin.List[admin.CellRequestView]
	_, err := s.Store.View(ctx, func(tx *store.Tx) error {
		out.Items = []admin.CellRequestView{}
		cell, err := s.publicCell(tx, req.Ref)
		if err != nil {
			return err
		}
		only := mesh.CoreID("")
		if req.Core != "" {
			c, err := store.Lookup(tx, s.Store.Cores, req.Core)
			if err != nil {
				return err
			}
			only = c.ID
		}
		have, err := store.List(tx, s.Store.CellCerts)
		if err != nil {
			return err
		}
		cores, err := store.List(tx, s.Store.Cores)
		if err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(have)) {
			c := have[id]
			if c.Cell != cell.ID || only != "" && id != only {
				continue
			}
			out.Items = append(out.Items, admin.CellRequestView{
				Core: id, Name: cores[id].Name, Suffix: c.Suffix, Open: certs.Open(c.Order), Asked: c.Order.Asked, CertLine: certLine(c.Order),
				CSR: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: c.Order.Request})),
			})
		}
		return nil
	})
	return out, err
}

func certLine(o mesh.CertOrder) admin.CertLine {
	return admin.CertLine{By: o.By, Issued: o.Issued, NotAfter: o.NotAfter, Failures: o.Failures, Reason: o.Reason, Next: o.Next}
}

// hintPublic says how devices get a cell whose certificates anybody trusts: what
// a cell shows to clients is decided once.
const hintPublic = "a cell keeps its kind of certificate: add another with --certificate public, and have devices moved there (meshctl admin cell move)"

func (s *Service) publicCell(tx *store.Tx, ref string) (mesh.Cell, error) {
	c, err := store.Lookup(tx, s.Store.Cells, ref)
	if err == nil && c.Certificate != mesh.CertificatePublic {
		err = mesh.WithHint(fmt.Errorf("admin: cell %s makes its certificates itself, with its own authority: %w", c.Name, mesh.ErrConflict), hintPublic)
	}
	return c, err
}

// cellCertify takes chains, all or none.
func (s *Service) cellCertify(ctx context.Context, req admin.CellCertifyRequest) (admin.CellCertified, error) {
	out := admin.CellCertified{}
	if n := len(req.Chains); n == 0 || n > maxChains {
		return out, fmt.Errorf("admin: certificates: %d files, want 1 to %d: %w", n, maxChains, mesh.ErrInvalid)
	}
	err := s.change(ctx, "cell.certify", func(tx *store.Tx) error {
		out.Items = nil
		cell, err := s.publicCell(tx, req.Ref)
		if err != nil {
			return err
		}
		for i, chain := range req.Chains {
			up, err := certs.Upload(tx, s.Store, cell, []byte(chain), s.now())
			if err != nil {
				return fmt.Errorf("file %d: %w", i+1, err)
			}
			core, err := store.Get(tx, s.Store.Cores, up.Core)
			if err != nil && !errors.Is(err, mesh.ErrNotFound) {
				return err
			}
			// The record of a core is written by servers too, so audit does not show it.
			if err := tx.Event(mesh.Event{Type: mesh.EventCertOrdered, Severity: mesh.Info, Object: "core/" + string(up.Core),
				Cause: fmt.Sprintf("%s brought a certificate for *.%s", admin.CallerFrom(ctx).Actor, cell.Suffix)}); err != nil {
				return err
			}
			out.Items = append(out.Items, admin.CellCertifiedLine{Core: up.Core, Name: core.Name, NotAfter: up.NotAfter, Warning: up.Warning})
		}
		return nil
	})
	return out, err
}
