package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/doctor"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// A role is one long-running part with its configuration. `mgmt serve`, `core
// run`, `entry run` and `run --role` are all made from it.
type role interface {
	// prepare completes the configuration with what depends on the machine and
	// checks it: all faults at once, touching nothing.
	prepare() error
	logging() logConfig
	// run blocks until ctx ends.
	run(ctx context.Context, log *slog.Logger) error
	// checks are what `meshctl doctor` looks at for this configuration.
	checks() []doctor.Check
}

// newRole returns a role with its defaults.
func newRole(name string) (role, error) {
	switch name {
	case "mgmt":
		return newMgmtConfig(), nil
	case "core":
		return newCoreConfig(), nil
	case "entry":
		return newEntryConfig(), nil
	}
	return nil, usagef("unknown role %q", name).hint("the roles are mgmt, core and entry")
}

func roleNames() []string { return []string{"mgmt", "core", "entry"} }

// logConfig is how a role logs.
type logConfig struct {
	Level  string `key:"level" help:"debug, info, warn or error"`
	Format string `key:"format" help:"text or json"`
}

func defaultLog() logConfig { return logConfig{Level: "info", Format: "text"} }

// logger makes the role's logger, or says what is wrong with the settings.
func (c logConfig) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		return nil, fmt.Errorf("configuration: log.level %q: want debug, info, warn or error: %w", mesh.Quotable(c.Level), mesh.ErrInvalid)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch c.Format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("configuration: log.format %q: want text or json: %w", mesh.Quotable(c.Format), mesh.ErrInvalid)
}

// roleCommand makes the command that runs a role.
func roleCommand(name string, c *cobra.Command) *cobra.Command {
	r, err := newRole(name)
	if err != nil {
		panic(err) // the name is a constant
	}
	configFlags(c, name, r)
	c.Flags().Bool("check", false, "check the configuration and exit")
	c.Args = takes()
	c.RunE = func(c *cobra.Command, _ []string) error {
		if _, err := loadConfig(c, name, r); err != nil {
			return err
		}
		check, _ := c.Flags().GetBool("check")
		return runRole(c, name, r, check)
	}
	return c
}

func runRole(c *cobra.Command, name string, r role, check bool) error {
	log, logErr := r.logging().logger(c.ErrOrStderr())
	if err := errors.Join(logErr, r.prepare()); err != nil {
		return &configError{err}
	}
	if check {
		_, err := fmt.Fprintln(c.OutOrStdout(), "the configuration of", name, "is valid")
		return err
	}
	return asConfigError(r.run(c.Context(), log))
}

// asConfigError marks what no restart can mend: what is invalid in files and
// folders needs an operator's hand.
func asConfigError(err error) error {
	if errors.Is(err, mesh.ErrInvalid) {
		return &configError{err}
	}
	return err
}

func newRun() *cobra.Command {
	var name, file string
	var check bool
	c := &cobra.Command{
		Use:   "run --role ROLE",
		Short: "Run a role from its configuration file",
		Long:  "Runs the role named by --role, as its own command does, with everything in the\nconfiguration file or in MESHCTL_* variables.",
		Args:  takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := newRole(name)
			if err != nil {
				return err
			}
			if _, err := loadConfigFrom(nil, name, file, r); err != nil {
				return err
			}
			return runRole(c, name, r, check)
		},
	}
	c.Flags().StringVar(&name, "role", "", "mgmt, core or entry")
	c.Flags().StringVar(&file, "config", "", "configuration file (default /etc/meshctl/ROLE.yaml when it exists)")
	c.Flags().BoolVar(&check, "check", false, "check the configuration and exit")
	must(c.MarkFlagRequired("role"))
	complete(c, "role", roleNames()...)
	return c
}

func must(err error) {
	if err != nil {
		panic(err) // a flag that does not exist: a programmer's mistake
	}
}

// readSecretFile reads a secret of one line from a file, or from standard input
// when the file is "-". It refuses a file that others may read.
func readSecretFile(ctx context.Context, what, file string, stdin io.Reader) (mesh.Secret, error) {
	const limit = 8 << 10
	data, err := readPrivateFile(ctx, what, file, stdin, limit)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if len(data) > limit || text == "" || strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("%s: %s: want one line of text, at most 8 KiB: %w", what, file, mesh.ErrInvalid)
	}
	return mesh.Secret(text), nil
}

// readPrivateFile reads a file that others may not read, or standard input as
// "-": at most one byte more than limit, so that the caller sees what is too long.
func readPrivateFile(ctx context.Context, what, file string, stdin io.Reader, limit int64) ([]byte, error) {
	r := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if info.Mode().IsRegular() && !isCredential(file) && info.Mode().Perm()&0o077 != 0 {
			return nil, mesh.WithHint(fmt.Errorf("%s: %s may be read by others (mode %04o): %w", what, file, info.Mode().Perm(), mesh.ErrInvalid), "chmod 600 "+file)
		}
		r = f
	}
	data, err := patient(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(r, limit+1)) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return data, nil
}
