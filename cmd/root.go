// Package cmd is the command line: flags, files and environment become
// configurations, errors become messages and exit codes. It decides nothing
// else.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Exit codes (docs/exit-codes.md). 69 and 78 are those of sysexits.h.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitUnavailable = 69
	exitConfig      = 78
)

// Main runs the command line and returns the exit code. The first SIGINT or
// SIGTERM ends the command's context; a second one kills.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	c, err := root.ExecuteContextC(ctx)
	return report(stderr, interrupted(ctx, usageFault(c, err)))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "meshctl",
		Short: "A private access network whose exits belong to many people",
		Long: `meshctl is one program that plays every part of a private access network:
the management server, the entries that clients connect to, the cores that let
traffic out, and the terminal of the people who run it.

Try it on this machine: meshctl dev up`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownSubcommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%s", flagFault(err)).hint("see `%s --help`", c.CommandPath())
	})
	root.AddGroup(
		&cobra.Group{ID: "roles", Title: "Roles:"},
		&cobra.Group{ID: "operate", Title: "Operate:"},
		&cobra.Group{ID: "local", Title: "This machine:"},
	)
	add(root, "roles", newMgmt(), newEntry(), newCore(), newRun())
	add(root, "operate", newAdmin())
	add(root, "local", newDev(), newDoctor(), newInstall(), newConfig(), newVersion())
	root.AddCommand(newDocs())
	return root
}

func add(root *cobra.Command, group string, cmds ...*cobra.Command) {
	for _, c := range cmds {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// group makes a command that only holds others.
func group(use, short string, cmds ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: unknownSubcommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(cmds...)
	return c
}

func unknownSubcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := usagef("unknown command %q for %q", args[0], c.CommandPath())
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		longer := slices.IndexFunc(near, func(name string) bool { return strings.HasPrefix(name, args[0]) })
		return err.hint("did you mean %q?", near[max(longer, 0)])
	}
	return err.hint("see `%s --help`", c.CommandPath())
}

// usageError is a command line that can never work.
type usageError struct {
	text string
	next string
}

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) *usageError {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

func (e *usageError) hint(format string, args ...any) *usageError {
	e.next = fmt.Sprintf(format, args...)
	return e
}

// configError is a configuration that can never work; service managers must not
// restart on it.
type configError struct{ err error }

func (e *configError) Error() string { return e.err.Error() }
func (e *configError) Unwrap() error { return e.err }

// exitError ends with a code of its own and prints nothing more.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// interrupted says in one word that a signal ended a command. A context that
// ended for another reason is that reason's matter.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	if hint := mesh.Hint(err); hint != "" {
		return mesh.WithHint(errors.New("interrupted"), hint)
	}
	return errors.New("interrupted")
}

// report prints err for people and returns the exit code.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	for line := range strings.Lines(strings.TrimRight(err.Error(), "\n")) {
		line = strings.TrimSuffix(strings.TrimRight(line, "\n"), ": "+mesh.ErrInvalid.Error()) // a word for programs
		if !strings.HasPrefix(line, " ") {                                                     // what is indented belongs to the line above
			line = "error: " + line
		}
		fmt.Fprintln(stderr, clean(line)) // servers quote what nodes and people wrote
	}
	if h := hintOf(err); h != "" {
		fmt.Fprintf(stderr, "hint: %s\n", clean(h))
	}
	return exitCode(err)
}

func hintOf(err error) string {
	if u, ok := errors.AsType[*usageError](err); ok && u.next != "" {
		return u.next
	}
	return mesh.Hint(err)
}

func exitCode(err error) int {
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*configError](err); ok {
		return exitConfig
	}
	if errors.Is(err, mesh.ErrUnavailable) {
		return exitUnavailable
	}
	return exitFailure
}

// usageFault recognises the usage errors that cobra makes itself, to which it
// gives no type, and says how c is used.
func usageFault(c *cobra.Command, err error) error {
	if _, ours := errors.AsType[*usageError](err); err == nil || ours {
		return err
	}
	for _, p := range []string{"unknown command ", "accepts ", "requires at least ", "requires at most ", "required flag(s) ", "invalid argument ", "if any flags in the group ", "at least one of the flags "} {
		if strings.HasPrefix(err.Error(), p) {
			return usagef("%v", err).hint("usage: %s", c.UseLine())
		}
	}
	return err
}

// flagFault says what is wrong with a flag, in place of the Go package that
// found out.
func flagFault(err error) string {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err.Error()
	}
	want, ok := map[string]string{
		"bool": "true or false", "int": "a whole number", "int64": "a whole number",
		"duration": "a number with a unit, such as 90s or 24h", "stringSlice": "a list with commas",
	}[bad.GetFlag().Value.Type()]
	if !ok {
		want = strings.TrimPrefix(bad.Unwrap().Error(), "want ")
	}
	return fmt.Sprintf("--%s %q: want %s", bad.GetFlag().Name, mesh.Quotable(bad.GetValue()), want)
}
