package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// patient waits for read, which blocks until a person or another program
// writes something and knows no context, or until ctx ends. The read itself is
// left behind then, since the process is about to end.
func patient[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		value, err := read()
		got <- answer{value, err}
	}()
	select {
	case a := <-got:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// confirm asks a person before what cannot be undone. Without a terminal it
// says what it would have asked and refuses, since nobody could answer.
func confirm(c *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(c.InOrStdin()) {
		return usagef("%s: not done without a confirmation: %s", c.CommandPath(), question).hint("add --yes when nobody can answer")
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s [y/N] ", question)
	in := bufio.NewReader(io.LimitReader(c.InOrStdin(), 64))
	line, err := patient(c.Context(), func() (string, error) { return in.ReadString('\n') })
	if err != nil { // no line, so none that a terminal would have ended
		fmt.Fprintln(c.ErrOrStderr())
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed, nothing changed")
}

// askSecret asks for one line on a terminal, without echo. It gives the
// terminal its echo back when ctx ends meanwhile.
func askSecret(ctx context.Context, in *os.File, out io.Writer, question string) (mesh.Secret, error) {
	fd := int(in.Fd())
	state, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("ask on the terminal: %w", err)
	}
	fmt.Fprint(out, question)
	line, err := patient(ctx, func() ([]byte, error) { return term.ReadPassword(fd) })
	fmt.Fprintln(out)
	if ctx.Err() != nil {
		return "", errors.Join(ctx.Err(), term.Restore(fd, state))
	}
	return mesh.Secret(line), err
}

// isTerminal says whether a person sits at the other end of a stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
