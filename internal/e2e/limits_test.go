package e2e

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
)

// gauge reads one number of a part's metrics.
func gauge(t *testing.T, p *dev.Process, name string) float64 {
	t.Helper()
	page, err := get(t.Context(), "http://"+p.Health+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("%s has no metric %s", p.Name, name)
	return 0
}

func TestEveryRoleShowsItsMetrics(t *testing.T) {
	m := sharedMesh(t)
	for _, p := range []*dev.Process{m.Mgmt, m.Cores[0], m.Entries[0]} {
		if files, routines := gauge(t, p, "process_open_fds"), gauge(t, p, "go_goroutines"); files < 1 || routines < 1 {
			t.Errorf("%s: %v files, %v goroutines", p.Name, files, routines)
		}
	}
	if n := gauge(t, m.Mgmt, "meshctl_mgmt_nodes_connected"); n < 4 {
		t.Errorf("%v nodes connected, want at least 4", n)
	}
}

func TestAThousandConnectionsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	m := newMesh(t, dev.Settings{Cores: 1, Entries: 1})
	c, echo := addDevice(t, m, "crowd"), echoServer(t)
	round := func(n int) {
		for _, tun := range openMany(t, c, m.EntryAddresses, echo, n) {
			_ = tun.Close() // all that it was for
		}
	}
	round(50) // sessions, caches and pools are there
	parts := slices.Concat(m.Entries, m.Cores)
	names := []string{"go_goroutines", "process_open_fds"}
	base := map[string]float64{}
	settled := func(p *dev.Process, name string, most float64) error {
		if v := gauge(t, p, name); v > most {
			return fmt.Errorf("%s of %s is %v, want at most %v", name, p.Name, v, most)
		}
		return nil
	}
	for _, p := range parts {
		for _, name := range names {
			// What the warm-up has left closes meanwhile; fifty would show.
			eventually(t, patience, "quiet", func() error { return settled(p, name, 100) })
			base[p.Name+name] = gauge(t, p, name)
		}
	}
	for range 5 {
		round(200)
	}
	for _, p := range parts {
		for _, name := range names {
			most := base[p.Name+name] + 15
			took := eventually(t, patience, "back to base", func() error { return settled(p, name, most) })
			t.Logf("%s of %s: %v before, %v after %v", name, p.Name, base[p.Name+name], gauge(t, p, name), took)
		}
	}
}

func TestLimitsCountWhoTheClientIs(t *testing.T) {
	t.Parallel()
	m := newMesh(t, dev.Settings{Cores: 1, Entries: 1, Configure: func(part string, config map[string]any) {
		if part == "entry-a" {
			config["proxies"] = map[string]any{"trusted": []string{"127.0.0.0/8"}}
			config["limits"] = map[string]any{"connections": 64, "per-source": 2}
		}
	}})
	c, echo, entry := addDevice(t, m, "shared"), echoServer(t), m.EntryAddresses[0]
	from := func(address string) (*tunnel, error) {
		return c.over(t.Context(), headed(t, entry, "PROXY TCP4 "+address+" 198.51.100.1 40000 443\r\n"), echo)
	}
	var open []io.Closer
	for _, address := range []string{"203.0.113.1", "203.0.113.1", "203.0.113.2", "203.0.113.2"} {
		tun, err := from(address)
		if err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		open = append(open, tun)
	}
	if tun, err := from("203.0.113.1"); err == nil {
		_ = tun.Close() // it should never have opened
		t.Error("a third connection of one source was served")
	}
	for _, tun := range open {
		_ = tun.Close() // makes room
	}
	eventually(t, patience, "room again", func() error {
		tun, err := from("203.0.113.1")
		if err == nil {
			err = tun.Close()
		}
		return err
	})

	two := 2
	call(t, m, admin.DeviceSet, admin.DeviceSetRequest{Ref: c.id, Connections: &two})
	for _, address := range []string{"203.0.113.10", "203.0.113.11"} {
		tun, err := from(address)
		if err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		defer tun.Close()
	}
	if tun, err := from("203.0.113.12"); err == nil {
		_ = tun.Close() // it should never have opened
		t.Error("a third connection of a device with two was served")
	}
}
