package entry_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/entry"
	"github.com/meshctl/meshctl/pkg/relay"
)

// E-10: half-closed connections live as long as both ends, and nothing is left
// behind.
func TestHalfClosedConnections(t *testing.T) {
	g := startEntry(t, func(s *entry.Server) { s.Sessions = 1 })
	const size = 1 << 20
	stay := make(chan struct{})
	released := sync.OnceFunc(func() { close(stay) })
	var serving atomic.Int64
	c := startCore(t, g.ca, func(in *relay.Incoming) {
		serving.Add(1)
		defer serving.Add(-1)
		st, err := in.Accept()
		if err != nil {
			return
		}
		defer st.Close()
		if _, err := io.ReadFull(st, make([]byte, len(hello(name)))); err != nil {
			t.Errorf("core: %v", err)
		}
		mode := make([]byte, 1)
		if _, err := io.ReadFull(st, mode); err != nil {
			st.Reset(relay.CodePeerReset)
			return
		}
		switch mode[0] {
		case 'a': // the client is done, and then comes much
			if _, err := st.Read(mode); err != io.EOF {
				t.Errorf("core: %v, want the client's end", err)
			}
			if _, err := st.Write(make([]byte, size)); err != nil {
				t.Errorf("core: %v", err)
			}
		case 'b': // the client is done, and nothing comes for a while
			<-stay
		case 'c': // this side is done, and the client is idle
			if err := st.CloseWrite(); err != nil {
				t.Errorf("core: %v", err)
			}
			if _, err := io.Copy(io.Discard, st); err != nil {
				t.Errorf("core: %v", err)
			}
		}
	})
	t.Cleanup(released)
	g.lead(c)
	open := func(mode string) *net.TCPConn {
		conn := dial(t, g.addr)
		send(t, conn, append(hello(name), mode...))
		return conn
	}
	closeWrite := func(conn *net.TCPConn) {
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	warm := open("a")
	closeWrite(warm)
	if b, err := io.ReadAll(warm); err != nil || len(b) != size {
		t.Fatalf("%d bytes after the client's end, %v; want %d", len(b), err, size)
	}
	warm.Close()
	g.wantEnded(t, entry.Done, 1)
	goroutines, files := usage(t)

	quiet, halfDone := open("b"), open("c")
	closeWrite(quiet)
	if _, err := halfDone.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("the core's end came as %v", err)
	}
	const cycles = 200
	for range cycles {
		conn := open("c")
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		conn.Close()
	}
	g.wantEnded(t, entry.Done, 1+cycles)
	// All the while, the two quiet ones have stayed.
	if err := quiet.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := quiet.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the quiet connection: %v, want that it stays", err)
	}
	send(t, halfDone, make([]byte, 1000))
	halfDone.Close()
	quiet.Close()
	released()
	g.wantEnded(t, entry.Done, 3+cycles)
	eventually(t, "the core to see every end", func() bool { return serving.Load() == 0 })
	wantUsage(t, goroutines, files, 4)
}

func TestAClientsResetReachesTheCore(t *testing.T) {
	g := startEntry(t)
	ended := make(chan error, 1)
	c := startCore(t, g.ca, func(in *relay.Incoming) {
		st, err := in.Accept()
		if err != nil {
			return
		}
		_, err = io.Copy(io.Discard, st)
		ended <- err
		st.Reset(relay.CodePeerReset)
	})
	g.lead(c)
	conn := dial(t, g.addr)
	send(t, conn, hello(name))
	eventually(t, "the stream", func() bool { return len(c.seen()) == 1 })
	relay.Abort(conn, relay.CodeUnspecified)
	if err := <-ended; err == nil {
		t.Error("the core saw a clean end")
	}
	g.wantEnded(t, entry.Reset, 1)
}

// E-15: those who do not read hold back themselves alone.
func TestSlowClientsDoNotStallOthers(t *testing.T) {
	g := startEntry(t)
	c := startCore(t, g.ca, func(in *relay.Incoming) {
		st, err := in.Accept()
		if err != nil {
			return
		}
		chunk := make([]byte, 16<<10)
		for err == nil {
			_, err = st.Write(chunk)
		}
		st.Reset(relay.CodePeerReset)
	})
	g.lead(c)
	for range 30 {
		conn := dial(t, g.addr)
		if err := conn.SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		send(t, conn, hello(name))
	}
	eventually(t, "30 streams", func() bool { return len(c.seen()) == 30 })
	conn := dial(t, g.addr)
	if err := conn.SetDeadline(time.Now().Add(3 * time.Minute)); err != nil { // a stall has no end
		t.Fatal(err)
	}
	send(t, conn, hello(name))
	if n, err := io.CopyN(io.Discard, conn, 32<<20); err != nil {
		t.Errorf("the neighbour got %d bytes: %v", n, err)
	}
}
