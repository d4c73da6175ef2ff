package kube

import (
	"net/netip"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Each change either makes other pods, or must leave those that are there.
func TestOnlyWhatPodsAreMadeFromRestartsThem(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*mesh.EntryLayer)
		same   bool
	}{
		"another image":                {func(l *mesh.EntryLayer) { l.Image += "1" }, false},
		"another kind":                 {func(l *mesh.EntryLayer) { l.Kind = mesh.EntryDaemonSet }, false},
		"a limit of the entry":         {func(l *mesh.EntryLayer) { l.Limits.Hellos = 7 }, false},
		"who knows names":              {func(l *mesh.EntryLayer) { l.DNS = []netip.Prefix{netip.MustParsePrefix("169.254.20.10/32")} }, true},
		"balancers that send a header": {func(l *mesh.EntryLayer) { l.Service.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }, false},
		"memory":                       {func(l *mesh.EntryLayer) { l.Resources.MemoryLimit = "1Gi" }, false},
		"a longer drain":               {func(l *mesh.EntryLayer) { l.DrainLimit = mesh.Duration(time.Hour) }, false},
		"a level of the log":           {func(l *mesh.EntryLayer) { l.LogLevel = "debug" }, false},
		"more replicas":                {func(l *mesh.EntryLayer) { l.Replicas = 7 }, true},
		"an autoscaler":                {func(l *mesh.EntryLayer) { l.Autoscale.Max = 7 }, true},
		"a port of the service":        {func(l *mesh.EntryLayer) { l.Service.Port = 8443 }, true},
		"a name":                       {func(l *mesh.EntryLayer) { l.Service.Name = "entry.example.net" }, true},
		"no policy":                    {func(l *mesh.EntryLayer) { l.OpenNetwork = true }, true},
		"a deadline":                   {func(l *mesh.EntryLayer) { l.Deadline = mesh.Duration(time.Hour) }, true},
		"a default that is spelt out":  {func(l *mesh.EntryLayer) { l.LogLevel = "info" }, true},
	} {
		l := someLayer()
		x.change(&l)
		earlier := []mesh.EntryRelease{{Number: 4, Pods: 2, Layer: someLayer()}}
		want := int64(5)
		if x.same {
			want = 2
		}
		if got := Pods(5, l, earlier); got != want {
			t.Errorf("%s: pods of %d; want %d", name, got, want)
		}
	}
}

// Going back takes the pods that may still be there.
func TestAnUndoHasThePodsOfTheReleaseThatItGoesBackTo(t *testing.T) {
	failed := someLayer()
	failed.Image = "registry.example.net/meshctl:broken"
	earlier := []mesh.EntryRelease{{Number: 1, Pods: 1, Layer: someLayer()}, {Number: 2, Pods: 2, Layer: failed}}
	if got := Pods(3, someLayer(), earlier); got != 1 {
		t.Errorf("pods of %d; want 1", got)
	}
	if got := Pods(1, someLayer(), nil); got != 1 {
		t.Errorf("the first release has pods of %d", got)
	}
}
