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
	Routes  *store.Mirror[mesh.ServerName, mesh.Route]
	// Rollouts say what nodes run, by group.
	Rollouts *store.Mirror[string, mesh.Rollout]
	// Kubes are clusters, KubeStates how they are, and Entries those that are pods
	// of them among others.
	Kubes      *store.Mirror[mesh.KubeID, mesh.KubeCluster]
	KubeStates *store.Mirror[mesh.KubeID, mesh.KubeState]
	Entries    *store.Mirror[mesh.EntryID, mesh.Entry]
	// Targets say where cores are reached.
	Targets *store.Mirror[string, mesh.Target]
}

// Mirrors returns the copies that Run keeps. They are full once Run is ready.
func (s *Service) Mirrors() Mirrors {
	v := s.view
	return Mirrors{
		Config: v.config, Members: v.members, Devices: v.devices, Cells: v.cells, Spent: v.spent, Routes: v.routes, Rollouts: v.rollouts,
		Kubes: v.kubes, KubeStates: v.kubeStates, Entries: v.entries, Targets: v.targets,
	}
}
