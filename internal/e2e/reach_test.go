package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// way is the only way to a core's relay: connections at addr are passed on to it,
// unless the way is shut.
type way struct {
	addr string
	to   string

	wg    sync.WaitGroup
	mu    sync.Mutex // guards what follows
	ln    net.Listener
	conns map[net.Conn]bool
}

// open lets connections in.
func (w *way) open(t *testing.T) {
	t.Helper()
	addr := w.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ln, w.addr, w.conns = ln, ln.Addr().String(), map[net.Conn]bool{}
	w.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() { w.pass(c) })
		}
	})
}

func (w *way) pass(in net.Conn) {
	out, err := net.Dial("tcp", w.to)
	if err != nil {
		in.Close()
		return
	}
	w.mu.Lock()
	w.conns[in], w.conns[out] = true, true
	w.mu.Unlock()
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		w.wg.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // one end is gone
			in.Close()
			out.Close()
		})
	}
}

// shut ends what is open and lets nothing in.
func (w *way) shut() {
	w.mu.Lock()
	w.ln.Close()
	for c := range w.conns {
		c.Close()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// A core phones home, and nobody gets to its relay any more: that is told with what
// the entry found, shown, and told to be over when the entry gets there, although no
// client tries any more.
func TestACellOutOfReach(t *testing.T) {
	t.Parallel()
	var w way
	m := newMesh(t, dev.Settings{Cores: 1, Entries: 1, Configure: func(part string, config map[string]any) {
		if strings.HasPrefix(part, "core") {
			w.to = config["listen"].(string)
			w.open(t)
			config["advertise"] = []string{w.addr}
		}
	}})
	t.Cleanup(w.shut)
	c, echo, entry := addDevice(t, m, "phone"), echoServer(t), m.EntryAddresses[0]
	eventually(t, patience, "served", func() error { return c.tryEcho(t.Context(), entry, echo) })

	w.shut()
	begin := time.Now()
	event := func(e mesh.EventType) func() error {
		return func() error {
			list, err := tryCall(t, m, admin.EventList, admin.EventListRequest{Type: e})
			if err == nil && len(list.Items) == 0 {
				err = errors.New("not told")
			}
			return err
		}
	}
	down := event(mesh.EventCellUnreachable)
	took := eventually(t, 3*patience, "it is told", func() error {
		try, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if c.tryEcho(try, entry, echo) == nil {
			t.Error("a client gets through")
		}
		return down()
	})
	t.Logf("told after %v", took)
	v := call(t, m, admin.CellGet, admin.Ref{Ref: dev.CellName})
	if v.Unreachable == nil || !strings.Contains(v.Unreachable.Entries, "1 of 1 entries") || len(v.Reach) != 1 || !v.Reach[0].Fails {
		t.Errorf("the cell is shown as %+v", v)
	}
	if s := call(t, m, admin.StatusGet, admin.None{}); !strings.Contains(fmt.Sprint(s.Warnings), "clients do not get into cell "+dev.CellName) {
		t.Errorf("status warns of %q", s.Warnings)
	}

	w.open(t)
	took = eventually(t, 3*patience, "it is told to be over", event(mesh.EventCellReachable))
	t.Logf("over after %v, %v after it began", took, time.Since(begin))
}
