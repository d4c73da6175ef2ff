package muxcool

import (
	"bufio"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/clientproto/clientprototest"
)

// Clients do whatever comes to their minds, with destinations of every kind.
// Every connection ends, nothing stays (TestMain looks for goroutines), and no
// slot is lost.
func TestRandomHistories(t *testing.T) {
	gone := listen(t)
	_ = gone.Close()
	quick := func(c *net.TCPConn) { _, _ = c.Write([]byte("bye")) }
	broken := func(c *net.TCPConn) { _ = c.SetLinger(0) }
	takes := []clientproto.Destination{
		origin(t, echo), origin(t, echo), origin(t, quick), origin(t, broken),
		clientproto.To(gone.Addr().(*net.TCPAddr).AddrPort()),
	}
	datagrams := udpOrigin(t, "")
	var wg sync.WaitGroup
	for seed := range uint64(24) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			client, server := pair(t)
			m := newConn(server, opener{}, 16)
			over := make(chan error, 1)
			go func() { over <- m.serve(t.Context(), bufio.NewReader(server)) }()
			randomClient(r, clientprototest.NewMux(client), takes, datagrams)
			select {
			case <-over:
			case <-time.After(patience):
				t.Errorf("seed %d: serving does not end", seed)
			}
			if n := len(m.slots); n != 0 {
				t.Errorf("seed %d: %d slots are lost", seed, n)
			}
		})
	}
	wg.Wait()
}

func randomClient(r *rand.Rand, m *clientprototest.Mux, tcp []clientproto.Destination, udp clientproto.Destination) {
	defer m.Close()
	var open []*clientprototest.Session
	data := make([]byte, 20000)
	for range 300 {
		if len(open) == 0 || r.IntN(8) == 0 {
			s := m.Open(tcp[r.IntN(len(tcp))], false)
			if r.IntN(3) == 0 {
				s = m.Open(udp, true)
			}
			go func() {
				for range s.Pieces() {
				}
			}()
			open = append(open, s)
		}
		s := open[r.IntN(len(open))]
		var err error
		switch r.IntN(12) {
		case 0:
			err = s.End(false)
		case 1:
			err = s.End(true)
		default:
			_, err = s.Write(data[:r.IntN(len(data))])
		}
		if err != nil {
			return
		}
	}
}
