package adminsvc

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// setOptions changes how clients get into a cell's cores.
func setOptions(c *mesh.Cell, o admin.CellOptions) error {
	if o.Offers != nil {
		if err := checkOffers(*o.Offers); err != nil {
			return err
		}
		c.Offers = slices.Clone(*o.Offers)
	}
	if o.Order != nil {
		if err := checkOrder(*c, *o.Order); err != nil {
			return err
		}
		c.Order = *o.Order
	}
	return setGuests(&c.Guests, o)
}

func checkOffers(offers []mesh.Offer) error {
	for i, o := range offers {
		if !slices.Contains(mesh.Offers(), o) {
			return fmt.Errorf("admin: offer %s is not among those there are: %w", mesh.Quotable(o.String()), mesh.ErrInvalid)
		}
		if slices.Contains(offers[:i], o) {
			return fmt.Errorf("admin: offer %s is named twice: %w", o, mesh.ErrInvalid)
		}
	}
	return nil
}

func checkOrder(c mesh.Cell, order mesh.CertificateOrder) error {
	switch {
	case order != mesh.OrderUpload && order != mesh.OrderACME:
		return fmt.Errorf("admin: order %q: want upload or acme: %w", mesh.Quotable(string(order)), mesh.ErrInvalid)
	case c.Certificate != mesh.CertificatePublic:
		return mesh.WithHint(fmt.Errorf("admin: cell %s has an authority of its own, so no certificate is ordered for it: %w", c.Name, mesh.ErrConflict), hintPublic)
	}
	return nil
}

func setGuests(g *mesh.GuestLimits, o admin.CellOptions) error {
	if o.GuestDevices != nil {
		g.Devices = *o.GuestDevices
	}
	if o.GuestConnections != nil {
		g.Connections = *o.GuestConnections
	}
	if o.GuestTraffic != nil {
		g.Traffic = *o.GuestTraffic
	}
	if g.Devices < 0 || g.Connections < 0 || g.Traffic < 0 {
		return fmt.Errorf("admin: limits of guests: want 0 (without limit) or more: %w", mesh.ErrInvalid)
	}
	return nil
}

func (s *Service) cellRotate(ctx context.Context, req admin.CellRotateRequest) (admin.CellView, error) {
	overlap, err := s.overlap(ctx, req.Overlap)
	if err != nil {
		return admin.CellView{}, err
	}
	var out mesh.Cell
	err = s.change(ctx, "cell.rotate-paths", func(tx *store.Tx) error {
		c, err := store.Lookup(tx, s.Store.Cells, req.Ref)
		if err != nil {
			return err
		}
		if c.State == mesh.CellRetired {
			return fmt.Errorf("admin: cell %s is retired, which is final: %w", c.Name, mesh.ErrConflict)
		}
		return store.Update(tx, s.Store.Cells, c.ID, func(c *mesh.Cell) error {
			c.RotatePaths(s.now(), overlap)
			out = *c
			return nil
		})
	})
	if err != nil {
		return admin.CellView{}, err
	}
	return s.cellView(ctx, out)
}
