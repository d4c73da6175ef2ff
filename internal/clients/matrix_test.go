//go:build clients

package clients

import (
	"testing"

	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Every client, with the configuration that it is served, uses every way in that
// this names: two of them at once.
func TestEveryClientUsesEveryWayItIsServed(t *testing.T) {
	m := theMesh(t)
	offerAll(t, m, dev.CellName)
	s := subscribe(t, "phone", dev.CellName)
	for _, l := range locals(t) {
		t.Run(l.row, func(t *testing.T) {
			l.useAll(t, s.served(t, l.agent, ""))
		})
	}
}

// useAll uses every way in that a document has.
func (l local) useAll(t *testing.T, body []byte) {
	run.table.row(l.row)
	t.Run("as it is", func(t *testing.T) {
		// What it asks to find the fastest node is not there.
		until(t, l.run(t, body, "").byName)
	})
	for _, n := range l.nodes(t, body) {
		t.Run(n.offer.String(), func(t *testing.T) {
			run.table.set(l.row, n.offer, "failed")
			l.check(t, body, n)
			if !t.Failed() {
				run.table.set(l.row, n.offer, passed(n.offer))
			}
		})
	}
}

// check runs two clients of one kind, whose work overlaps.
func (l local) check(t *testing.T, body []byte, n node) {
	logsOnFailure(t, run.mesh)
	one, other := l.run(t, body, n.tag), l.run(t, body, n.tag)
	together(t, one.pages, other.pages)
	if l.program == "sing-box" {
		together(t, one.spelled)
	}
	if carriesUDP(n.offer) {
		together(t, one.dns, other.dns)
	}
	if t.Failed() {
		return
	}
	together(t, one.download, other.download, one.upload, other.upload)
}

func carriesUDP(o mesh.Offer) bool {
	return o.Protocol != mesh.ProtocolHTTP && o.Protocol != mesh.ProtocolSOCKS
}

func passed(o mesh.Offer) string {
	if carriesUDP(o) {
		return "TCP, UDP"
	}
	return "TCP"
}
