package muxcool

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/clientproto"
)

// nowhere takes everything and answers with an echo, without any socket.
type nowhere struct{}

func (nowhere) TCP(context.Context, clientproto.Destination) (net.Conn, error) {
	a, b := net.Pipe()
	go func() {
		defer b.Close()
		_, _ = io.Copy(b, b)
	}()
	return a, nil
}

func (nowhere) UDP(context.Context) (Flow, error) {
	return &mirror{in: make(chan []byte, 1), closed: make(chan struct{})}, nil
}

type mirror struct {
	in     chan []byte
	closed chan struct{}
}

func (m *mirror) Send(_ context.Context, p []byte, _ clientproto.Destination) error {
	select {
	case m.in <- bytes.Clone(p):
	default:
	}
	return nil
}

func (m *mirror) Receive(take func([]byte, netip.AddrPort) error) error {
	select {
	case p := <-m.in:
		return take(p, netip.MustParseAddrPort("192.0.2.1:1"))
	case <-m.closed:
		return net.ErrClosed
	}
}

func (m *mirror) Close() error {
	close(m.closed)
	return nil
}

type sink struct{ io.Writer }

func (sink) Close() error { return nil }

// Whatever a client sends, serving it ends, with all it opened.
func FuzzServe(f *testing.F) {
	to := clientproto.Destination{Name: "a", Port: 1}
	frames := func(list ...clientproto.Frame) (b []byte) {
		for _, f := range list {
			b = append(clientproto.AppendFrame(b, f), make([]byte, f.Size)...)
		}
		return b
	}
	f.Add(frames(
		clientproto.Frame{Session: 1, Kind: clientproto.FrameNew, To: to, Data: true, Size: 3},
		clientproto.Frame{Session: 1, Kind: clientproto.FrameKeep, Data: true, Size: 5000},
		clientproto.Frame{Session: 1, Kind: clientproto.FrameEnd},
		clientproto.Frame{Session: 1, Kind: clientproto.FrameKeep, Data: true, Size: 9},
	))
	f.Add(frames(
		clientproto.Frame{Kind: clientproto.FrameNew, UDP: true, To: to, Data: true, Size: 3},
		clientproto.Frame{Kind: clientproto.FrameKeep, UDP: true, To: to, Data: true},
		clientproto.Frame{Session: 9, Kind: clientproto.FrameEnd, Failed: true},
		clientproto.Frame{Kind: clientproto.FrameKeepAlive, Data: true, Size: 9},
	))
	f.Add(frames(
		clientproto.Frame{Session: 1, Kind: clientproto.FrameNew, To: to},
		clientproto.Frame{Session: 2, Kind: clientproto.FrameNew, To: to},
		clientproto.Frame{Session: 3, Kind: clientproto.FrameNew, UDP: true, To: to},
		clientproto.Frame{Session: 1, Kind: clientproto.FrameNew, To: to},
	))
	f.Fuzz(func(t *testing.T, b []byte) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = Serve(t.Context(), bufio.NewReader(bytes.NewReader(b)), sink{io.Discard}, nowhere{}, 2)
		}()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("serving does not end")
		}
	})
}
