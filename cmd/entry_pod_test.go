package cmd

import (
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestWhatAPodIsConfiguredWith(t *testing.T) {
	good := defaultEntryPod()
	good.Cluster, good.Root = string(mesh.NewKubeID()), strings.Repeat("ab", 32)
	if p, err := good.parse(""); err != nil || p == nil || string(p.Cluster) != good.Cluster || mesh.RootText(p.Root) != good.Root {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := defaultEntryPod().parse("/etc/token"); err != nil || p != nil {
		t.Errorf("an entry that is no pod: %+v, %v", p, err)
	}
	for key, change := range map[string]func(*entryPod) string{
		"kubernetes.cluster":    func(p *entryPod) string { p.Cluster = "frankfurt"; return "" },
		"kubernetes.root":       func(p *entryPod) string { p.Root = "ab"; return "" },
		"kubernetes.token-file": func(p *entryPod) string { p.TokenFile = "token"; return "" },
		"kubernetes.mgmt-file":  func(p *entryPod) string { p.MgmtFile = ""; return "" },
		"token-file":            func(*entryPod) string { return "/etc/token" },
	} {
		p := good
		joinToken := change(&p)
		if _, err := p.parse(joinToken); mesh.Kind(err) != mesh.ErrInvalid || !strings.HasPrefix(err.Error(), "configuration: "+key+": ") {
			t.Errorf("%s: %v", key, err)
		}
	}
	alone := defaultEntryPod()
	alone.Root = good.Root
	if _, err := alone.parse(""); mesh.Kind(err) != mesh.ErrInvalid {
		t.Errorf("a root without a cluster: %v", err)
	}
}
