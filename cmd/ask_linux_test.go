package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal: a person's end, and the program's.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

func echoes(t *testing.T, f *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// A first Ctrl-C ends a question, and a terminal that was asked for a secret
// shows again what is typed.
func TestInterruptEndsAQuestion(t *testing.T) {
	_, program := terminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	var out bytes.Buffer
	asked := make(chan error, 1)
	go func() {
		_, err := askSecret(ctx, program, &out, "secret: ")
		asked <- err
	}()
	for end := time.Now().Add(10 * time.Second); echoes(t, program); {
		if time.Now().After(end) {
			t.Fatal("the echo stays on")
		}
	}
	interrupt()
	select {
	case err := <-asked:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on waiting for an answer")
	}
	if !echoes(t, program) {
		t.Error("the terminal was left without echo")
	}
	if out.String() != "secret: \n" {
		t.Errorf("the terminal shows %q", out.String())
	}

	c := &cobra.Command{}
	c.SetIn(program)
	c.SetErr(&out)
	c.SetContext(ctx)
	if err := confirm(c, false, "Sure?"); !errors.Is(err, context.Canceled) {
		t.Errorf("confirm: got %v", err)
	}
}

func TestInterruptEndsAReadOfStandardInput(t *testing.T) {
	_, program := terminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := readSecretFile(ctx, "token-file", "-", program); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := readPatch(ctx, program, "-", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestInterruptedCommandsSaySo(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	ended := fmt.Errorf("mgmt: found a mesh: %w", context.Canceled)
	if err := interrupted(ctx, ended); err != ended {
		t.Errorf("without a signal: %v", err)
	}
	interrupt()
	for in, want := range map[error]string{ended: "error: interrupted\n", errors.New("the disk is full"): "error: the disk is full\n"} {
		var b strings.Builder
		if code := report(&b, interrupted(ctx, in)); code != exitFailure || b.String() != want {
			t.Errorf("%v: exit %d, %q", in, code, b.String())
		}
	}
}
