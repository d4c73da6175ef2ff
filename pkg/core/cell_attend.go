package core

import (
	"context"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// checkCellKind knows the kinds of certificates for clients; "" is of a
// management server that knew one kind only.
func checkCellKind(kind string) error {
	switch mesh.CellCertificate(kind) {
	case mesh.CertificatePrivate, mesh.CertificatePublic, "":
		return nil
	}
	return fmt.Errorf("core: configuration: cell certificate %q: this version has %s and %s: %w",
		mesh.Quotable(kind), mesh.CertificatePrivate, mesh.CertificatePublic, mesh.ErrInvalid)
}

func (s *Server) takeCell(m *controlpb.CellCertificate) {
	taken, err := s.cell.answer(m, time.Now())
	switch {
	case err != nil:
		s.Log.Error("cell certificate not taken", "err", err)
	case taken:
		suffix, notAfter := s.cell.describe()
		s.Log.Info("cell certificate taken", "suffix", suffix, "ends", notAfter)
		s.tell()
	default:
		s.Log.Debug("cell certificate is being made")
	}
}

// Attend implements control.Attendant: it asks for the cell's certificate when
// there is none, when the suffix changes, and from two thirds of its life on.
func (s *Server) Attend(ctx context.Context, send control.Send) error {
	for {
		req, wait, err := s.cell.due(time.Now())
		if err != nil {
			return err
		}
		if req != nil {
			if err := send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_CellRequest{CellRequest: req}}); err != nil {
				return err
			}
		}
		again := time.NewTimer(wait)
		select {
		case <-again.C:
		case <-s.cell.changed:
		case <-ctx.Done():
		}
		again.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}
