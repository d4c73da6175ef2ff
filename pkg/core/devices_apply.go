package core

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxDevices bounds what a server may make a core remember.
const maxDevices = 1 << 18

// snapshot is one that arrives in parts.
type snapshot struct {
	revision int64
	devices  map[mesh.DeviceID]mesh.ServedDevice
}

var (
	errPart = errors.New("core: device table: more parts follow")
	errBase = errors.New("core: device table: the delta does not extend the revision held")
)

// apply puts what management sent in force, whole or not at all. It returns
// errPart when that is a part of a snapshot, errBase for a delta that does not
// fit, and ErrInvalid for what can never be applied.
func (t *devices) apply(m *controlpb.Devices) error {
	upserts, err := decodeDevices(m.GetUpserts())
	if err != nil {
		return err
	}
	removes, err := decodeIDs(m.GetRemoves())
	if err != nil {
		return err
	}
	t.mu.Lock()
	next, err := t.next(m, upserts, removes)
	if err != nil {
		t.mu.Unlock()
		return err
	}
	over := t.replace(next)
	t.revision = m.GetRevision()
	t.mu.Unlock()
	run(over)
	return nil
}

// next works out the table after m. The caller holds mu.
func (t *devices) next(m *controlpb.Devices, upserts map[mesh.DeviceID]mesh.ServedDevice, removes []mesh.DeviceID) (map[mesh.DeviceID]mesh.ServedDevice, error) {
	switch {
	case m.GetRevision() <= 0:
		return nil, fmt.Errorf("core: device table: revision %d: %w", m.GetRevision(), mesh.ErrInvalid)
	case m.GetSnapshot():
		return t.nextSnapshot(m, upserts)
	case m.GetMore():
		return nil, fmt.Errorf("core: device table: a delta has no parts: %w", mesh.ErrInvalid)
	case m.GetBase() != t.revision:
		return nil, errBase
	}
	next := make(map[mesh.DeviceID]mesh.ServedDevice, len(t.known)+len(upserts))
	for id, d := range t.known {
		next[id] = d.ServedDevice
	}
	maps.Copy(next, upserts)
	for _, id := range removes {
		delete(next, id)
	}
	return next, tooMany(next)
}

// nextSnapshot collects the parts of one. The caller holds mu.
func (t *devices) nextSnapshot(m *controlpb.Devices, upserts map[mesh.DeviceID]mesh.ServedDevice) (map[mesh.DeviceID]mesh.ServedDevice, error) {
	if t.partial == nil || t.partial.revision != m.GetRevision() {
		t.partial = &snapshot{m.GetRevision(), map[mesh.DeviceID]mesh.ServedDevice{}}
	}
	next := t.partial.devices
	maps.Copy(next, upserts)
	err := tooMany(next)
	if err == nil && m.GetMore() {
		return nil, errPart
	}
	t.partial = nil
	return next, err
}

// restart forgets the parts of a snapshot whose stream has ended, and has what
// every device used reported again: the server before may not have written it.
func (t *devices) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = nil
	for id := range t.metered {
		t.fresh[id] = true
	}
}

func tooMany(m map[mesh.DeviceID]mesh.ServedDevice) error {
	if len(m) > maxDevices {
		return fmt.Errorf("core: device table: more than %d devices: %w", maxDevices, mesh.ErrInvalid)
	}
	return nil
}

func decodeDevices(in []*controlpb.Device) (map[mesh.DeviceID]mesh.ServedDevice, error) {
	out := make(map[mesh.DeviceID]mesh.ServedDevice, len(in))
	for _, d := range in {
		s, err := decodeDevice(d)
		if err != nil {
			return nil, fmt.Errorf("core: device table: %w", err)
		}
		out[s.ID] = s
	}
	return out, nil
}

func decodeDevice(d *controlpb.Device) (mesh.ServedDevice, error) {
	id, err := mesh.ParseDeviceID(d.GetId())
	if err != nil {
		return mesh.ServedDevice{}, err
	}
	out := mesh.ServedDevice{
		ID:        id,
		Verifiers: mesh.Verifiers{HTTP: d.GetHttpVerifier(), VLESS: d.GetVlessVerifier(), Trojan: d.GetTrojanVerifier()},
		Limits:    mesh.Limits{Connections: int(d.GetMaxConnections()), Traffic: d.GetMaxTraffic()},
	}
	if n := d.GetExpiresUnixNanos(); n != 0 {
		out.Limits.Expires = time.Unix(0, n)
	}
	if len(d.GetServerNames()) > 16 || max(len(d.GetHttpVerifier()), len(d.GetVlessVerifier()), len(d.GetTrojanVerifier())) > 128 || out.Limits.Connections < 0 || out.Limits.Traffic < 0 {
		return mesh.ServedDevice{}, fmt.Errorf("device %s: out of bounds: %w", id, mesh.ErrInvalid)
	}
	for _, s := range d.GetServerNames() {
		name, err := mesh.ParseServerName(s)
		if err != nil {
			return mesh.ServedDevice{}, err
		}
		out.ServerNames = append(out.ServerNames, name)
	}
	if h := d.GetHiddenHost(); h != "" {
		if out.HiddenHost, err = mesh.ParseServerName(h); err != nil {
			return mesh.ServedDevice{}, err
		}
	}
	return out, nil
}

func decodeIDs(in []string) ([]mesh.DeviceID, error) {
	out := make([]mesh.DeviceID, len(in))
	for i, s := range in {
		id, err := mesh.ParseDeviceID(s)
		if err != nil {
			return nil, fmt.Errorf("core: device table: %w", err)
		}
		out[i] = id
	}
	return out, nil
}
