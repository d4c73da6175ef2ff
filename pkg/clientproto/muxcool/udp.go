package muxcool

import (
	"context"
	"net/netip"
	"sync"

	"github.com/meshctl/meshctl/pkg/clientproto"
)

// serveUDP opens a flow and passes datagrams both ways until it is over.
func (m *conn) serveUDP(ctx context.Context, s *session) {
	defer m.drain(s)
	defer s.cancel(nil)
	flow, err := m.opener.UDP(ctx)
	if err != nil {
		m.finish(s, true)
		return
	}
	var down sync.WaitGroup
	down.Go(func() {
		m.receive(s, flow)
		m.finish(s, false)
	})
	m.send(ctx, s, flow)
	_ = flow.Close() // datagrams are not owed to anybody
	down.Wait()
}

func (m *conn) send(ctx context.Context, s *session, flow Flow) {
	for {
		p := m.next(ctx, s)
		if p == nil {
			return
		}
		err := flow.Send(ctx, *p.buf, p.to)
		p.free()
		if err != nil {
			return
		}
	}
}

// receive frames datagrams, each with where it comes from.
func (m *conn) receive(s *session, flow Flow) {
	var frame []byte
	take := func(p []byte, from netip.AddrPort) error {
		if len(p) > clientproto.MaxDatagram {
			return nil
		}
		f := clientproto.Frame{Session: s.id, Kind: clientproto.FrameKeep, UDP: true, To: clientproto.To(from), Data: true, Size: len(p)}
		frame = append(clientproto.AppendFrame(frame[:0], f), p...)
		return m.write(frame)
	}
	for {
		if err := flow.Receive(take); err != nil {
			return
		}
	}
}
