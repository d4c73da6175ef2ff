package e2e

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// What a big mesh has beside the nodes that run. MESHCTL_RESTORE=big asks for it;
// `make e2e-restore` does.
const (
	bigDevices = 10_000
	bigCores   = 200
	bigHands   = 16
)

// populate makes the mesh a big one if that was asked for, and returns what its
// restore takes beside: the cores that are added here never run, so nobody waits
// for what they refuse.
func (b *backedUp) populate(t *testing.T) (restore []string) {
	t.Helper()
	if os.Getenv("MESHCTL_RESTORE") != "big" {
		return nil
	}
	begin := time.Now()
	call(t, b.Mesh, admin.MemberAdd, admin.MemberAddRequest{Name: "Crowd"})
	call(t, b.Mesh, admin.CellAdd, admin.CellAddRequest{Name: "crowd", Suffix: "crowd.test"})
	side(t, bigCores-len(b.Cores), b.enrollCore)
	t.Logf("%d cores joined after %v", bigCores-len(b.Cores), time.Since(begin))
	side(t, bigDevices, func(t *testing.T, i int) error {
		_, err := tryCall(t, b.Mesh, admin.DeviceAdd, admin.DeviceAddRequest{Member: "Crowd", Name: fmt.Sprintf("device %d", i), Cell: "crowd"})
		return err
	})
	t.Logf("%d devices added after %v", bigDevices, time.Since(begin))
	return []string{"--collect", "10s"}
}

// side does n things side by side.
func side(t *testing.T, n int, do func(t *testing.T, i int) error) {
	t.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, bigHands)
	for range bigHands {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if err := do(t, i); err != nil {
					errs <- fmt.Errorf("%d of %d: %w", i, n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
}

// enrollCore lets a core in that never runs.
func (b *backedUp) enrollCore(t *testing.T, i int) error {
	made, err := tryCall(t, b.Mesh, admin.TokenCreate, admin.TokenCreateRequest{Role: mesh.RoleCore, Name: fmt.Sprintf("crowd %d", i), Member: dev.MemberName, Cell: "crowd"})
	if err != nil {
		return err
	}
	tok, err := mesh.ParseJoinToken(made.Token)
	if err != nil {
		return err
	}
	folder, err := identity.OpenFolder(filepath.Join(t.TempDir(), "identity"))
	if err != nil {
		return err
	}
	_, err = control.Enroll(t.Context(), control.EnrollConfig{Token: tok, Role: mesh.RoleCore, Folder: folder, Version: "test", Wait: true, Log: slog.New(slog.DiscardHandler)})
	return err
}
