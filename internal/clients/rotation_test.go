//go:build clients

package clients

import (
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// overlap is for how long what is replaced works.
const overlap = 10 * time.Second

// A device gets another label, and a cell other paths: old and new both work for
// a while, then the old ones have ended.
func TestOldAndNewNamesOverlap(t *testing.T) {
	m := theMesh(t)
	addCell(t, m, "rotating", "rotating.test")
	s := subscribe(t, "rotated", "rotating")
	life := mesh.Duration(overlap)
	for what, rotate := range map[string]func(){
		"label": func() {
			call(t, m, admin.DeviceRotate, admin.DeviceRotateRequest{Ref: string(s.device.ID), Label: true, Overlap: &life})
		},
		"paths": func() {
			call(t, m, admin.CellRotate, admin.CellRotateRequest{Ref: "rotating", Overlap: &life})
			rolledOut(t, m)
		},
	} {
		t.Run(what, func(t *testing.T) {
			old := s.overWebSocket(t)
			begin := time.Now()
			rotate()
			renewed := s.overWebSocket(t)
			renewed.works(t)
			old.works(t)
			if took := time.Since(begin); took > overlap {
				t.Fatalf("the overlap was over after %v", took)
			}
			old.ends(t)
			if took := time.Since(begin); took < overlap {
				t.Errorf("the old %s ended after %v", what, took)
			}
			renewed.works(t)
		})
	}
}

// overWebSocket starts the programs with what they are served now, over the
// transport that needs both a name and a path.
func (s subscriber) overWebSocket(t *testing.T) (out clients) {
	t.Helper()
	for _, l := range storyClients(t) {
		body := s.served(t, l.agent, "")
		nodes := l.nodes(t, body)
		i := slices.IndexFunc(nodes, func(n node) bool { return n.offer.Transport == mesh.TransportWS })
		if i < 0 {
			t.Fatalf("no WebSocket in %s", body)
		}
		out = append(out, l.run(t, body, nodes[i].tag))
	}
	return out
}
