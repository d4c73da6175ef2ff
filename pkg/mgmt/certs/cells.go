package certs

import (
	"context"
	"errors"
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// CellRequested takes note of what a core asks for: the wildcard of its cell. It
// returns the chain when there is one for the key in the request, and nil while
// it is being made. It returns ErrInvalid for an unusable request.
func (s *Service) CellRequested(ctx context.Context, core mesh.Core, cell mesh.Cell, csr []byte) ([][]byte, error) {
	if err := checkRequest(csr, wildcard(cell.Suffix)); err != nil {
		return nil, err
	}
	now := s.now()
	var chain [][]byte
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		chain = nil
		have, err := store.Get(tx, s.Store.CellCerts, core.ID)
		switch {
		case errors.Is(err, mesh.ErrNotFound):
			have = mesh.CellCert{Core: core.ID, Cell: cell.ID, Suffix: cell.Suffix, Order: mesh.CertOrder{Request: csr, Asked: now}}
			return store.Create(tx, s.Store.CellCerts, core.ID, have)
		case err != nil:
			return err
		}
		if have.Cell != cell.ID || have.Suffix != cell.Suffix {
			have = mesh.CellCert{Core: core.ID, Cell: cell.ID, Suffix: cell.Suffix}
		}
		if _, err := checkChain(have.Order.Chain, wildcard(cell.Suffix), now); err == nil && forKey(have.Order.Chain[0], csr) {
			chain = have.Order.Chain
			return nil
		}
		if sameKey(have.Order.Request, csr) {
			return nil // it is under way
		}
		have.Order = asked(have.Order, csr, now)
		return store.Update(tx, s.Store.CellCerts, core.ID, func(c *mesh.CellCert) error { *c = have; return nil })
	})
	if err != nil {
		return nil, fmt.Errorf("certs: note request of core %s: %w", core.ID, err)
	}
	if chain == nil {
		s.Wake()
	}
	return chain, nil
}
