//go:build clients

package clients

import (
	"context"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
)

// theMesh returns the mesh of all tests, which the first of them starts.
func theMesh(t *testing.T) *dev.Mesh {
	t.Helper()
	run.once.Do(func() { run.err = up(context.Background()) })
	if run.err != nil {
		t.Fatal(run.err)
	}
	logsOnFailure(t, run.mesh)
	return run.mesh
}

func up(ctx context.Context) (err error) {
	if run.origin, err = newOrigin(); err != nil {
		return err
	}
	binary, err := withNames(run.binary)
	if err != nil {
		return err
	}
	run.mesh, err = dev.Up(ctx, dev.Settings{
		Binary: binary, Dir: filepath.Join(run.dir, "mesh"), Cores: 2, Entries: 2,
		Configure: configure,
	})
	return err
}

// configure lets cores reach the origin, and nodes log what they can.
func configure(part string, config map[string]any) {
	if !strings.HasPrefix(part, "mgmt") {
		config["log"] = map[string]any{"level": "debug"}
	}
	if egress, ok := config["egress"].(map[string]any); ok {
		allow := egress["allow"].([]string)
		for _, a := range run.origin.addresses {
			allow = append(allow, netip.PrefixFrom(a, a.BitLen()).String())
		}
		egress["allow"] = allow
	}
}

// call asks the server of m, with a time limit.
func call[Req, Resp any](t *testing.T, m *dev.Mesh, method admin.Method[Req, Resp], req Req) Resp {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := method.Call(ctx, m.Admin, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
