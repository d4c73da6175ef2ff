package mgmt

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// sees makes these servers the only ones that server i is configured with; a
// peer that is nowhere stands for those that it is not told of.
func (x *trio) sees(i int, others ...int) {
	nowhere := "127.0.0.1:1"
	peers := []string{x.confs[i].GossipListen}
	for _, o := range others {
		peers = append(peers, x.confs[o].GossipListen)
	}
	x.confs[i].Peers = append(peers, nowhere)[:3]
}

// has says whether server i has a file in its folder.
func (x *trio) has(i int, file string) bool {
	_, err := os.Stat(filepath.Join(x.confs[i].Dir, file))
	return err == nil
}

// mesh is what server i is part of, or has promised to be.
func (x *trio) mesh(i int) mesh.ID {
	x.t.Helper()
	file, promised := serverFile{}, formation{}
	for name, to := range map[string]any{fileServer: &file, fileFormation: &promised} {
		b, err := os.ReadFile(filepath.Join(x.confs[i].Dir, name))
		if err == nil {
			err = json.Unmarshal(b, to)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			x.t.Fatal(err)
		}
	}
	if file.Mesh == "" && promised.Promise != nil {
		return promised.Promise.Mesh
	}
	return file.Mesh
}

// TestTwoFoundersAtOnceMakeOneMesh: a and b each see themselves with c and d, and
// not each other, so that both begin. Promises are asked for in one order: whoever
// comes second to c gets nothing.
func TestTwoFoundersAtOnceMakeOneMesh(t *testing.T) {
	x := newTrio(t, "a", "b", "c", "d")
	x.sees(0, 2, 3)
	x.sees(1, 2, 3)
	for _, i := range []int{2, 3} {
		x.confs[i].BootstrapExpect = 3
		x.confs[i].Peers = []string{x.confs[0].GossipListen, x.confs[1].GossipListen, x.confs[2].GossipListen, x.confs[3].GossipListen}
	}
	var both sync.WaitGroup
	both.Add(2)
	heard := make(chan struct{})
	hear := sync.OnceFunc(func() { close(heard) })
	t.Cleanup(hear)
	meet := func(s *Server) { // each has a root, and c has counted, before either asks
		s.step = func(step string) error {
			if step == "promised to itself" {
				both.Done()
				both.Wait()
				<-heard
			}
			return nil
		}
	}
	ms := []*member{x.start(0, meet), x.start(1, meet)}
	c := x.start(2)
	x.start(3)
	c.says(t, "4 servers are there, 3 are expected: a, b, c, d")
	hear()
	var won int
	select {
	case <-ms[0].up:
	case <-ms[1].up:
		won = 1
	case <-time.After(formPatience):
		t.Fatalf("no mesh within %v", formPatience)
	}
	lost := ms[1-won]
	lost.says(t, `server \"c\": \"c\" has promised to found`)
	for _, i := range []int{2, 3} {
		eventually(t, x.confs[i].Name+" is the winner's", func() bool { return x.mesh(i) == x.mesh(won) })
	}
	lost.says(t, "has another bootstrap secret, or is in a mesh already")
	lost.stop(t)
	if x.has(1-won, fileServer) {
		t.Errorf("%s has founded a mesh of its own", lost.Config.Name)
	}
}

// TestASplitFoundsNothingUntilItHeals: only b sees all; a, whose turn it would be,
// sees b alone. Then a sees all, and c is lost in the middle of the founding.
func TestASplitFoundsNothingUntilItHeals(t *testing.T) {
	x := newTrio(t, "a", "b", "c")
	whole := x.confs[0].Peers
	x.sees(0, 1)
	x.sees(2, 1)
	a, b, c := x.start(0), x.start(1), x.start(2)
	a.says(t, "2 of 3 servers are there (a, b); waiting for 127.0.0.1:1")
	c.says(t, "2 of 3 servers are there (b, c); waiting for 127.0.0.1:1")
	b.says(t, "all 3 servers are there; a founds the mesh")
	a.stop(t)
	for i := range x.confs {
		if x.has(i, fileRootCert) || x.has(i, fileServer) {
			t.Errorf("%s has begun a mesh", x.confs[i].Name)
		}
	}
	x.confs[0].Peers, x.confs[2].Peers = whole, whole
	lost, looked := make(chan struct{}), make(chan struct{})
	lose := sync.OnceFunc(func() {
		c.end()
		<-c.done
		close(lost)
		<-looked
	})
	a = x.start(0, func(s *Server) {
		s.step = func(step string) error {
			if step == "asked b" {
				lose()
			}
			return nil
		}
	})
	b.says(t, "founding promised")
	select {
	case <-lost:
	case <-time.After(formPatience):
		t.Fatalf("a has not asked b within %v", formPatience)
	}
	before := len(a.logs.String()) // it may have met b before it met c, and said so
	close(looked)
	eventually(t, "a waits for c", func() bool {
		return strings.Contains(a.logs.String()[before:], "2 of 3 servers are there (a, b); waiting for "+x.confs[2].GossipListen)
	})
	if x.has(0, fileServer) {
		t.Error("a has founded without c")
	}
	x.start(2)
	a.serves(t)
	for i := range x.confs {
		if x.mesh(i) != x.mesh(0) || x.mesh(i) == "" {
			t.Errorf("%s is of the mesh %q, a of %q", x.confs[i].Name, x.mesh(i), x.mesh(0))
		}
	}
}
