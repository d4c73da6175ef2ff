//go:build clients

package clients

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/freeport"
)

// patience bounds what should happen soon, on a machine that may be busy.
const patience = 30 * time.Second

// start runs a client program until the test ends, and returns when it listens
// on addr. Its log is shown when the test has failed.
func start(t *testing.T, addr string, env []string, program string, args ...string) {
	t.Helper()
	logFile := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(logFile)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(programs[program], args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		<-ended
		if text, err := os.ReadFile(logFile); t.Failed() || err != nil {
			t.Logf("%s %v says: %s%v", program, args, text, err)
		}
		out.Close()
	})
	for deadline := time.Now().Add(patience); ; {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("%s ended at once", program)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen: %v", program, err)
		}
	}
}

// freeAddress is one for a client to listen on.
func freeAddress(t *testing.T) *net.TCPAddr {
	t.Helper()
	a, err := freeport.Claim(loopback, 1)
	if err != nil {
		t.Fatal(err)
	}
	return net.TCPAddrFromAddrPort(a[0])
}

// write makes a file in a folder of the test's own.
func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeNoise makes a file of what is uploaded.
func writeNoise(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "noise")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(f, noise(bulk))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}
