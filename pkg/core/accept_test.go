package core

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// flapping is a listener that is out of descriptors every other time.
type flapping struct {
	net.Listener
	calls atomic.Int64
	limit int64
}

func (f *flapping) Accept() (net.Conn, error) {
	switch n := f.calls.Add(1); {
	case n > f.limit:
		return nil, net.ErrClosed
	case n%2 == 1:
		return nil, syscall.EMFILE
	}
	client, server := net.Pipe()
	_ = client.Close() // a peer that is gone
	return server, nil
}

func (f *flapping) Addr() net.Addr { return &net.TCPAddr{} }
func (f *flapping) Close() error   { return nil }

// E-12: descriptors that come and go do not fill the log.
func TestScarceDescriptorsAreLoggedOnceASecond(t *testing.T) {
	m := identitytest.New(t)
	var log bytes.Buffer
	o := Options{
		Node: m.Node(t, mesh.RoleCore), Revocations: m.Revocations(t), Config: DefaultConfig(),
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	synctest.Test(t, func(t *testing.T) {
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		f := &flapping{limit: 400}
		if err := s.Serve(context.Background(), f); err == nil {
			t.Error("a listener that broke is no error")
		}
		seconds := int(time.Since(start)/time.Second) + 1
		if lines := bytes.Count(log.Bytes(), []byte("accept postponed")); lines == 0 || lines > seconds {
			t.Errorf("%d lines in %d s", lines, seconds)
		}
	})
}
