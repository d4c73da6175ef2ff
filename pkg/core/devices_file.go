package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/meshctl/meshctl/internal/durable"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// deviceFile is the table as a core keeps it across restarts. It holds
// verifiers and no secrets.
type deviceFile struct {
	Revision int64               `json:"revision"`
	Devices  []mesh.ServedDevice `json:"devices"`
}

// openDevices reads the table at path, or begins with an empty one. A damaged
// file costs a snapshot from management.
func openDevices(path string, max int, log *slog.Logger) *devices {
	t := &devices{path: path, max: max, known: map[mesh.DeviceID]*device{}, pending: map[mesh.DeviceID]usage{},
		metered: map[mesh.DeviceID]usage{}, fresh: map[mesh.DeviceID]bool{}}
	if path == "" {
		return t
	}
	var f deviceFile
	older, err := durable.Read(path, func(b []byte) error { return json.Unmarshal(b, &f) })
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		return t
	case err != nil:
		log.Error("device table lost, asking for it again", "err", err)
		return t
	case older:
		log.Warn("damaged file replaced by its previous version", "file", path)
	}
	t.revision = f.Revision
	for _, d := range f.Devices {
		t.known[d.ID] = &device{ServedDevice: d, open: map[*lease]struct{}{}}
	}
	return t
}

// save writes the table. What is in force but not saved does no harm: after a
// restart the revision tells management what is missing.
func (t *devices) save() error {
	if t.path == "" {
		return nil
	}
	t.mu.Lock()
	f := deviceFile{Revision: t.revision}
	for _, id := range slices.Sorted(maps.Keys(t.known)) {
		f.Devices = append(f.Devices, t.known[id].ServedDevice)
	}
	t.mu.Unlock()
	b, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("core: save device table: %w", err)
	}
	return durable.Write(t.path, b)
}

// held is the revision in force.
func (t *devices) held() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.revision
}

// forget keeps the table in force, as one that no delta extends.
func (t *devices) forget() error {
	t.mu.Lock()
	t.revision, t.partial = 0, nil
	t.mu.Unlock()
	return t.save()
}
