package subs

import (
	"context"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// State is what is known of the mesh, from memory. What it returns is shared: do
// not modify it.
type State interface {
	// Config has the addresses of entries in clusters among its own.
	Config() mesh.Config
	Member(mesh.MemberID) (mesh.Member, bool)
	Device(mesh.DeviceID) (mesh.Device, bool)
	Devices() map[mesh.DeviceID]mesh.Device
	Cells() map[mesh.CellID]mesh.Cell
	// Spent says whose traffic is used up, by Spent.ID.
	Spent() map[string]mesh.Spent
	// Running is what the cores of a cell run; zero: nothing is known.
	Running(mesh.CellID) mesh.NodeConfig
	// Routed says whether entries know a server name.
	Routed(mesh.ServerName) bool
	// DevicesChanged is closed by the next change of a device. Take it before
	// reading.
	DevicesChanged() <-chan struct{}
	// Traffic is what all have moved. It asks the store.
	Traffic(context.Context) (store.TrafficNow, error)
	// Confirm returns nil when a quorum of the servers answers this one: then
	// the rest is of now.
	Confirm(context.Context) error
	// Secret opens the secret of a device.
	Secret(mesh.Device) (mesh.Secret, error)
}

// Mirrors is the State of a server.
type Mirrors struct {
	Store     *store.Store
	Settings  *store.Mirror[string, mesh.Config]
	MemberSet *store.Mirror[mesh.MemberID, mesh.Member]
	DeviceSet *store.Mirror[mesh.DeviceID, mesh.Device]
	CellSet   *store.Mirror[mesh.CellID, mesh.Cell]
	SpentSet  *store.Mirror[string, mesh.Spent]
	Rollouts  *store.Mirror[string, mesh.Rollout]
	RouteSet  *store.Mirror[mesh.ServerName, mesh.Route]
	Kubes     *store.Mirror[mesh.KubeID, mesh.KubeCluster]
	KubeState *store.Mirror[mesh.KubeID, mesh.KubeState]
}

// Config implements State.
func (m Mirrors) Config() mesh.Config {
	c, _ := m.Settings.Get(store.ConfigKey)
	return c.WithKubes(mesh.Kubes{Clusters: m.Kubes.All(), States: m.KubeState.All()})
}

// Member implements State.
func (m Mirrors) Member(id mesh.MemberID) (mesh.Member, bool) { return m.MemberSet.Get(id) }

// Device implements State.
func (m Mirrors) Device(id mesh.DeviceID) (mesh.Device, bool) { return m.DeviceSet.Get(id) }

// Devices implements State.
func (m Mirrors) Devices() map[mesh.DeviceID]mesh.Device { return m.DeviceSet.All() }

// Cells implements State.
func (m Mirrors) Cells() map[mesh.CellID]mesh.Cell { return m.CellSet.All() }

// Spent implements State.
func (m Mirrors) Spent() map[string]mesh.Spent { return m.SpentSet.All() }

// Running implements State.
func (m Mirrors) Running(id mesh.CellID) mesh.NodeConfig {
	r, _ := m.Rollouts.Get(string(id))
	return r.Running
}

// Routed implements State.
func (m Mirrors) Routed(n mesh.ServerName) bool {
	_, ok := m.RouteSet.Get(n)
	return ok
}

// DevicesChanged implements State.
func (m Mirrors) DevicesChanged() <-chan struct{} { return m.DeviceSet.Changed() }

// Traffic implements State.
func (m Mirrors) Traffic(ctx context.Context) (store.TrafficNow, error) { return m.Store.Traffic(ctx) }

// Confirm implements State: a linearizable read waits until this server has
// applied what the others have agreed on.
func (m Mirrors) Confirm(ctx context.Context) error {
	_, err := m.Store.Config.Get(ctx, store.ConfigKey)
	return err
}

// Secret implements State.
func (m Mirrors) Secret(d mesh.Device) (mesh.Secret, error) {
	return m.Store.Unseal(store.DeviceSecretPlace(d.ID), d.Secret)
}
