package adminsvc

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (s *Service) cellList(ctx context.Context, req admin.Page) (admin.List[admin.CellView], error) {
	u, err := s.usage(ctx)
	if err != nil {
		return admin.List[admin.CellView]{}, err
	}
	return list(ctx, req, s.Store.Cells.Page, func(_ string, c mesh.Cell) (admin.CellView, bool) {
		return u.cell(c), true
	})
}

func (s *Service) cellGet(ctx context.Context, req admin.Ref) (admin.CellView, error) {
	c, err := s.Store.Cells.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.CellView{}, err
	}
	v, err := s.cellView(ctx, c)
	if err != nil {
		return v, err
	}
	v.Reach, err = s.reach(ctx, c.ID)
	return v, err
}

func (s *Service) cellView(ctx context.Context, c mesh.Cell) (admin.CellView, error) {
	u, err := s.usage(ctx)
	return u.cell(c), err
}

func (s *Service) cellAdd(ctx context.Context, req admin.CellAddRequest) (admin.CellView, error) {
	defer s.Store.Sealing()()
	c, err := s.newCell(req)
	if err != nil {
		return admin.CellView{}, err
	}
	err = s.change(ctx, "cell.add", func(tx *store.Tx) error {
		var err error
		if c.Fallback, err = s.fallback(tx, c.ID, req.Fallback); err != nil {
			return err
		}
		return store.Create(tx, s.Store.Cells, c.ID, c)
	})
	if err != nil {
		return admin.CellView{}, err
	}
	return s.cellView(ctx, c)
}

// newCell makes what does not depend on the store's state, the authority of a
// private cell included.
func (s *Service) newCell(req admin.CellAddRequest) (mesh.Cell, error) {
	if err := mesh.CheckName(req.Name); err != nil {
		return mesh.Cell{}, err
	}
	suffix, err := mesh.ParseServerName(req.Suffix)
	if err != nil {
		return mesh.Cell{}, err
	}
	if _, err := suffix.Child(mesh.NewLabel()); err != nil {
		return mesh.Cell{}, fmt.Errorf("admin: suffix %s leaves no room for a device's label: %w", suffix, err)
	}
	c := mesh.Cell{
		ID: mesh.NewCellID(), Name: req.Name, Suffix: suffix, State: mesh.CellActive,
		Certificate: req.Certificate, ForwardClientAddress: req.ForwardClientAddress, Created: s.now(),
		Paths: []mesh.Paths{mesh.NewPaths()},
	}
	switch req.Certificate {
	case "", mesh.CertificatePrivate:
		c.Certificate = mesh.CertificatePrivate
		if err := setOptions(&c, req.CellOptions); err != nil {
			return c, err
		}
		return c, s.giveCA(&c)
	case mesh.CertificatePublic:
		c.Order = mesh.OrderUpload
		return c, setOptions(&c, req.CellOptions)
	}
	return c, fmt.Errorf("admin: certificate %q: want private or public: %w", mesh.Quotable(string(req.Certificate)), mesh.ErrInvalid)
}

func (s *Service) giveCA(c *mesh.Cell) error {
	make := s.NewCellCA
	if make == nil {
		make = ca.NewCellCA
	}
	cert, key, err := make(c.Suffix, c.Created)
	if err != nil {
		return err
	}
	c.CACert = cert
	c.CAKey, err = s.Store.Seal(store.CellKeyPlace(c.ID), key)
	return err
}

// fallback turns the names of cells into ids. self may not be among them.
func (s *Service) fallback(tx *store.Tx, self mesh.CellID, refs []string) ([]mesh.CellID, error) {
	var out []mesh.CellID
	for _, ref := range refs {
		c, err := store.Lookup(tx, s.Store.Cells, ref)
		switch {
		case err != nil:
			return nil, err
		case c.ID == self:
			return nil, fmt.Errorf("admin: cell %s cannot be its own fallback: %w", c.Name, mesh.ErrInvalid)
		case slices.Contains(out, c.ID):
			return nil, fmt.Errorf("admin: fallback %s is named twice: %w", c.Name, mesh.ErrInvalid)
		}
		out = append(out, c.ID)
	}
	return out, nil
}

func (s *Service) cellSet(ctx context.Context, req admin.CellSetRequest) (admin.CellView, error) {
	var out mesh.Cell
	err := s.change(ctx, "cell.set", func(tx *store.Tx) error {
		c, err := store.Lookup(tx, s.Store.Cells, req.Ref)
		if err != nil {
			return err
		}
		err = store.Update(tx, s.Store.Cells, c.ID, func(c *mesh.Cell) error {
			err := s.setCell(tx, c, req)
			out = *c
			return err
		})
		places := req.State != nil || req.ForwardClientAddress != nil || req.Fallback != nil || req.GuestDevices != nil
		if err != nil || !places {
			return err
		}
		if err := cellEvent(tx, c.State, out); err != nil {
			return err
		}
		return s.syncCell(tx, c.ID)
	})
	if err != nil {
		return admin.CellView{}, err
	}
	return s.cellView(ctx, out)
}

func (s *Service) setCell(tx *store.Tx, c *mesh.Cell, req admin.CellSetRequest) error {
	if req.Name != nil {
		if err := mesh.CheckName(*req.Name); err != nil {
			return err
		}
		c.Name = *req.Name
	}
	if req.State != nil && *req.State == mesh.CellActive && c.State == mesh.CellCompromised {
		if err := s.restoreCell(tx, c); err != nil {
			return err
		}
	}
	if req.Fallback != nil {
		var err error
		if c.Fallback, err = s.fallback(tx, c.ID, *req.Fallback); err != nil {
			return err
		}
	}
	if req.ForwardClientAddress != nil {
		c.ForwardClientAddress = *req.ForwardClientAddress
	}
	if err := setOptions(c, req.CellOptions); err != nil {
		return err
	}
	return s.setCellState(c, req.State)
}

// cellEvent tells of a cell whose members are served elsewhere from now on, for
// good or not, or at home again.
func cellEvent(tx *store.Tx, was mesh.CellState, c mesh.Cell) error {
	e := mesh.Event{Object: "cell/" + string(c.ID), Cause: fmt.Sprintf("cell %s is %s, and was %s", c.Name, c.State, was)}
	switch {
	case c.State == mesh.CellCompromised && was != mesh.CellCompromised:
		e.Type, e.Severity, e.Advice = mesh.EventCellCompromised, mesh.Critical, "its members are served elsewhere meanwhile: put new cores under another suffix, or restore it"
	case c.State == mesh.CellActive && was == mesh.CellCompromised:
		e.Type, e.Severity = mesh.EventCellRestored, mesh.Info
	case c.State == mesh.CellRetired && was != mesh.CellRetired:
		e.Type, e.Severity = mesh.EventCellRetired, mesh.Info
	default:
		return nil
	}
	return tx.Event(e)
}

func (s *Service) setCellState(c *mesh.Cell, to *mesh.CellState) error {
	if to == nil || *to == c.State {
		return nil
	}
	if err := checkCellState(*to); err != nil {
		return err
	}
	if c.State == mesh.CellRetired {
		return mesh.WithHint(fmt.Errorf("admin: cell %s is retired, which is final: %w", c.Name, mesh.ErrConflict), "add another cell, with another suffix")
	}
	if *to == mesh.CellCompromised {
		c.Compromised = s.now()
	}
	c.State = *to
	return nil
}

// restoreCell makes a cell active that was compromised. It goes by the fallbacks of
// until now: they have its devices.
func (s *Service) restoreCell(tx *store.Tx, c *mesh.Cell) error {
	cells, err := store.List(tx, s.Store.Cells)
	if err != nil {
		return err
	}
	until, err := s.overlapEnd(tx)
	if err != nil {
		return err
	}
	c.Restore(cells, until)
	return nil
}

func checkCellState(state mesh.CellState) error {
	switch state {
	case mesh.CellActive, mesh.CellCompromised, mesh.CellRetired:
		return nil
	}
	return fmt.Errorf("admin: cell state %q: want active, compromised or retired: %w", mesh.Quotable(string(state)), mesh.ErrInvalid)
}

func (s *Service) cellRemove(ctx context.Context, req admin.Ref) (admin.None, error) {
	return admin.None{}, s.change(ctx, "cell.remove", func(tx *store.Tx) error {
		c, err := store.Lookup(tx, s.Store.Cells, req.Ref)
		if err != nil {
			return err
		}
		u, err := s.usageIn(tx)
		if err != nil {
			return err
		}
		v := u.cell(c)
		if v.Cores > 0 || v.Devices > 0 {
			orRetire := "; or retire it"
			if c.State == mesh.CellRetired {
				orRetire = ""
			}
			return mesh.WithHint(
				fmt.Errorf("admin: cell %s has %s and %s: %w", c.Name, some(v.Cores, "core"), some(v.Devices, "device"), mesh.ErrConflict),
				"first revoke and remove its cores (meshctl admin core revoke, core remove) and move its devices (meshctl admin cell move "+string(c.ID)+" OTHER)"+orRetire)
		}
		for _, other := range u.cells {
			if slices.Contains(other.Fallback, c.ID) {
				return mesh.WithHint(fmt.Errorf("admin: cell %s is a fallback of %s: %w", c.Name, other.Name, mesh.ErrConflict),
					"change that first: meshctl admin cell set "+string(other.ID)+" --fallback …")
			}
		}
		if err := s.noToken(tx, func(t mesh.Token) bool { return t.Cell == c.ID }, "cell "+c.Name); err != nil {
			return err
		}
		return store.Delete(tx, s.Store.Cells, c.ID)
	})
}

func (s *Service) cellCAOf(ctx context.Context, req admin.Ref) (admin.CellCA, error) {
	c, err := s.Store.Cells.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.CellCA{}, err
	}
	if c.CACert == "" {
		return admin.CellCA{}, fmt.Errorf("admin: cell %s has a public certificate and no authority of its own: %w", c.Name, mesh.ErrNotFound)
	}
	return admin.CellCA{Cell: c.ID, PEM: c.CACert}, nil
}
