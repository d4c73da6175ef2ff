package mgmt

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// crowd makes a backup one of a mesh with that many devices and cores.
func (w *world) crowd(t testing.TB, s *backup.State, devices, cores int) {
	t.Helper()
	at := slices.IndexFunc(s.Objects, func(o backup.Object) bool { return o.Folder == "devices" })
	like, err := codec.Decode[mesh.Device](s.Objects[at].JSON)
	if err != nil {
		t.Fatal(err)
	}
	add := func(folder, id string, v any) {
		text, err := codec.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		s.Objects = append(s.Objects, backup.Object{Folder: folder, ID: id, JSON: text})
	}
	for i := range devices {
		d := like
		d.ID, d.Name = mesh.NewDeviceID(), fmt.Sprintf("device %d", i)
		d.Labels, d.HiddenLabel = []mesh.Label{{Label: mesh.NewLabel()}}, mesh.NewLabel()
		if d.Secret, err = w.store.Seal(store.DeviceSecretPlace(d.ID), mesh.NewSecret(20)); err != nil {
			t.Fatal(err)
		}
		add("devices", string(d.ID), d)
	}
	for i := range cores {
		c := mesh.Core{ID: mesh.NewCoreID(), Name: fmt.Sprintf("core %d", i), Member: like.Member, Cell: like.Assigned.Cell, State: mesh.CoreReady, EverReady: true, Joined: like.Created}
		add("cores", string(c.ID), c)
	}
}

// BenchmarkRestore restores 10,000 devices and 200 cores: all is read, verified,
// decrypted, imported and written to the disk.
func BenchmarkRestore(b *testing.B) {
	w := getWorld(b)
	member, cell := w.home(b)
	call(b, admin.DeviceAdd, w.local(b), admin.DeviceAddRequest{Member: member, Name: unique("phone"), Cell: cell})
	s := w.save(b, func(s *backup.State) {
		w.crowd(b, s, 10_000, 200)
		s.Objects = slices.DeleteFunc(s.Objects, func(o backup.Object) bool { return o.Folder == "servers" }) // it runs
	})
	b.ReportMetric(float64(len(s.tree)), "files")
	for b.Loop() {
		if _, err := s.restoration(testConfig(filepath.Join(b.TempDir(), "data"))).Run(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
