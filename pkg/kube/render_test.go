package kube

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// someFacts are those of the golden files.
func someFacts() Facts {
	return Facts{
		Mesh: "mesh-aaaaaaaaaaaaaaaa", Cluster: "kube-bbbbbbbbbbbbbbbb", Namespace: DefaultNamespace,
		Root: strings.Repeat("0f", 32),
		Mgmt: []string{"mgmt2.example.net:8443", "192.0.2.1:8443"},
		Allow: []netip.AddrPort{
			netip.MustParseAddrPort("198.51.100.7:7443"), netip.MustParseAddrPort("192.0.2.2:8443"),
			netip.MustParseAddrPort("192.0.2.1:8443"), netip.MustParseAddrPort("[2001:db8::7]:7443"),
			netip.MustParseAddrPort("192.0.2.1:8443"),
		},
		Epoch: Epoch{Mesh: 1, Leader: 42},
	}
}

func someLayer() mesh.EntryLayer { return mesh.EntryLayer{Image: "registry.example.net/meshctl:1.2"} }

func render(t *testing.T, l mesh.EntryLayer, f Facts) []Object {
	t.Helper()
	out, err := Render(mesh.EntryRelease{Number: 3, Pods: 3, Layer: l}, f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRenderAndWrite(t *testing.T) {
	text, err := YAML(render(t, someLayer(), someFacts()))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "kind: Deployment") {
		t.Error(text)
	}
}
