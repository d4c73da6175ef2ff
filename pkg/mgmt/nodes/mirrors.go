package nodes

import (
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Mirrors are copies of the state, for others on this server to read: devices are
// many, and one copy is enough.
type Mirrors struct {
	Config  *store.Mirror[string, mesh.Config]
	Members *store.Mirror[mesh.MemberID, mesh.Member]
	Devices *store.Mirror[mesh.DeviceID, mesh.Device]
	Cells   *store.Mirror[mesh.CellID, mesh.Cell]
	Spent   *store.Mirror[string, mesh.Spent]
}

// Mirrors returns the copies that Run keeps. They are full once Run is ready.
func (s *Service) Mirrors() Mirrors {
	return Mirrors{Config: s.view.config, Members: s.view.members, Devices: s.view.devices, Cells: s.view.cells, Spent: s.view.spent}
}
