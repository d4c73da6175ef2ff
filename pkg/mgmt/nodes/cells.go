package nodes

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// maxCSR bounds a request for a certificate, in bytes.
const maxCSR = 16 << 10

// cellTime bounds the signing of one cell certificate.
const cellTime = 10 * time.Second

// cellRenewals is how many a core may have in one life of them, where that is
// more than one a minute.
const cellRenewals = 10

// CellSigner signs a cell's wildcard certificate with the cell's own CA; see
// ca.SignCellLeaf.
type CellSigner func(certPEM string, keyPEM mesh.Secret, csr []byte, suffix mesh.ServerName, life time.Duration, now time.Time) (chain [][]byte, err error)

// cellRequested answers a core that asks for the certificate clients see. It
// does not hold up the stream.
func (s *Service) cellRequested(ctx context.Context, se *session, r *controlpb.CellRequest) {
	s.hub.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, cellTime)
		defer cancel()
		chain, err := s.certifyCell(ctx, se, r)
		m := &controlpb.CellCertificate{Chain: chain, Pending: err == nil && len(chain) == 0}
		if err != nil {
			m.Error = err.Error()
			s.Log.Warn("cell certificate refused", "node", se.node, "err", err)
		}
		if err := se.answer(cellMessage(m)); err != nil {
			se.end(err)
		}
	})
}

// certifyCell decides on what the store says now: a core is given a certificate
// of its own cell and of no other.
func (s *Service) certifyCell(ctx context.Context, se *session, r *controlpb.CellRequest) ([][]byte, error) {
	refuse := func(why string, kind error) ([][]byte, error) {
		return nil, fmt.Errorf("nodes: certify cell %s: %s: %w", mesh.Quotable(r.GetCellId()), why, kind)
	}
	life := s.config().CertLife.Of(mesh.RoleCore)
	se.cell.SetLimit(rate.Every(min(time.Minute, life/cellRenewals)))
	if !se.cell.Allow() {
		return refuse("asked for too often", mesh.ErrUnavailable)
	}
	if len(r.GetCsr()) > maxCSR {
		return refuse("the request is too long", mesh.ErrInvalid)
	}
	core, err := s.Store.Cores.Get(ctx, mesh.CoreID(se.peer.ID))
	if err != nil {
		return nil, err
	}
	if core.Value.Revoked || string(core.Value.Cell) != r.GetCellId() {
		return refuse("it is not the cell of this core", mesh.ErrDenied)
	}
	cell, err := s.Store.Cells.Get(ctx, core.Value.Cell)
	if err != nil {
		return nil, err
	}
	c := cell.Value
	if c.State == mesh.CellRetired {
		return refuse("it is retired", mesh.ErrConflict)
	}
	if c.Certificate == mesh.CertificatePublic {
		return s.publicCell(ctx, se, core.Value, c, r.GetCsr())
	}
	key, err := s.Store.Unseal(store.CellKeyPlace(c.ID), c.CAKey)
	if err != nil {
		return nil, err
	}
	chain, err := s.SignCell(c.CACert, key, r.GetCsr(), c.Suffix, life, time.Now())
	if err != nil {
		return nil, err
	}
	s.tell(mesh.Event{Type: mesh.EventCellCertificated, Severity: mesh.Info, Object: "cell/" + string(c.ID),
		Cause: "certificate for *." + string(c.Suffix) + " issued to " + se.node})
	return chain, nil
}

// publicCell has a request noted. What comes while it is being noted is handed
// over too.
func (s *Service) publicCell(ctx context.Context, se *session, core mesh.Core, c mesh.Cell, csr []byte) ([][]byte, error) {
	if s.PublicCell == nil {
		return nil, fmt.Errorf("nodes: certify cell %s: this server has no public certificates: %w", c.ID, mesh.ErrConflict)
	}
	se.expect(csr)
	chain, err := s.PublicCell(ctx, core, c, csr)
	if err != nil || len(chain) > 0 {
		se.expect(nil)
	}
	return chain, err
}
