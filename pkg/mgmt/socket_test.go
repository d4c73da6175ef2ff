package mgmt

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestTheSocketKnowsWhoCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mgmt.sock")
	ln, err := listenSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	s := &socket{out: newConveyor(), log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.serve(ctx, ln) }()

	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := s.out.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if who := got.(*knownConn).caller; who.kind != kindLocal || who.door != doorSocket || int(who.uid) != os.Getuid() {
		t.Errorf("known as %+v", who)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestAStaleSocketIsReplacedAndALiveOneIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mgmt.sock")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close() // as after SIGKILL: the file stays, nobody answers

	ln, err := listenSocket(t.Context(), path)
	if err != nil {
		t.Fatalf("a stale socket: %v", err)
	}
	defer ln.Close()
	if _, err := listenSocket(t.Context(), path); mesh.Kind(err) != mesh.ErrExists || mesh.Hint(err) == "" {
		t.Errorf("a live socket: %v, want that it exists, with a hint", err)
	}
	file := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(file, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenSocket(t.Context(), file); mesh.Kind(err) != mesh.ErrExists {
		t.Errorf("a file that is no socket: %v, want that it exists", err)
	}
}
