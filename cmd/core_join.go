package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// joinFlags are what `core join` takes beyond the core's configuration.
type joinFlags struct {
	token, tokenFile string
	enrollOnly, wait bool
}

func newCoreJoin() *cobra.Command {
	cfg := newCoreConfig()
	var j joinFlags
	c := &cobra.Command{
		Use:   "join --token TOKEN | --token-file FILE",
		Short: "Join the mesh with a token, then serve",
		Long: `Makes a key on this machine, trades the token for a certificate, stores both, and
goes on as "meshctl core run" without the token. With a valid identity in the
folder it changes nothing and says so, and serves.

The token is a secret: --token-file FILE, --token-file - (standard input) and the
variable MESHCTL_TOKEN keep it out of the process list and the shell's history.`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := loadConfig(c, "core", cfg); err != nil {
				return err
			}
			return runCoreJoin(c, cfg, j)
		},
	}
	configFlags(c, "core", cfg)
	c.Flags().StringVar(&j.token, "token", "", "join token (also in the variable "+tokenEnv+")")
	c.Flags().StringVar(&j.tokenFile, "token-file", "", "file with the join token; - is standard input")
	c.Flags().BoolVar(&j.enrollOnly, "enroll-only", false, "end after enrolling, without serving")
	c.Flags().BoolVar(&j.wait, "wait", false, "go on trying while no management server can be reached")
	c.MarkFlagsMutuallyExclusive("token", "token-file")
	return c
}

func runCoreJoin(c *cobra.Command, cfg *coreConfig, j joinFlags) error {
	log, err := cfg.Log.logger(c.ErrOrStderr())
	if err := errors.Join(err, cfg.prepare()); err != nil {
		return &configError{err}
	}
	if err := joinCore(c, cfg, j, log); err != nil {
		return asConfigError(err)
	}
	if j.enrollOnly {
		return nil
	}
	return rerun(c)
}

// joinCore leaves an identity in the folder, or says why not.
func joinCore(c *cobra.Command, cfg *coreConfig, j joinFlags, log *slog.Logger) error {
	files, err := openNode(cfg.Dir, log)
	if err != nil {
		return err
	}
	node, err := files.load(mesh.RoleCore)
	switch {
	case err == nil && time.Now().Before(node.Leaf().NotAfter):
		return say(c, "this core has joined already as %s; nothing was changed\n", node.Identity().ID)
	case err != nil && !errors.Is(err, mesh.ErrNotFound):
		return err
	}
	token, err := j.read(c)
	if err != nil {
		return err
	}
	node, err = files.enroll(c.Context(), mesh.RoleCore, token, j.wait, log)
	if err != nil {
		return err
	}
	return sayJoined(c, node)
}

func sayJoined(c *cobra.Command, node *identity.Node) error {
	return say(c, "joined as %s; certificate until %s\n", node.Identity().ID, node.Leaf().NotAfter.UTC().Format(time.RFC3339))
}

func say(c *cobra.Command, format string, args ...any) error {
	_, err := fmt.Fprintf(c.OutOrStdout(), format, args...)
	return err
}

// read finds the token: flag, file, standard input, environment, the service
// manager's credential.
func (j joinFlags) read(c *cobra.Command) (mesh.Secret, error) {
	if j.tokenFile != "" {
		return tokenFrom(c, "token-file", j.tokenFile)
	}
	if j.token != "" {
		return mesh.Secret(j.token), nil
	}
	if t := os.Getenv(tokenEnv); t != "" {
		return mesh.Secret(t), nil
	}
	if file := credential("token"); file != "" {
		return tokenFrom(c, "credential token", file)
	}
	return "", &configError{mesh.WithHint(errors.New("a join token is needed"),
		"on the management server: meshctl admin token create --role core --member MEMBER --cell CELL; then --token-file FILE here")}
}

// tokenFrom reads a token's file. A restart mends nothing about one that is
// missing or open to others.
func tokenFrom(c *cobra.Command, what, file string) (mesh.Secret, error) {
	token, err := readSecretFile(c.Context(), what, file, c.InOrStdin())
	if err != nil {
		return "", &configError{err}
	}
	return token, nil
}

// rerun replaces this process by `core run` with the same configuration, so
// that the token is in neither arguments nor environment of what serves.
func rerun(c *cobra.Command) error {
	if err := context.Cause(c.Context()); err != nil {
		return nil // stopped while joining: what was joined stays joined
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	args := append([]string{os.Args[0], "core", "run"}, passOn(c)...)
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, tokenEnv+"=") })
	return fmt.Errorf("start core run: %w", syscall.Exec(self, args, env))
}

// passOn returns the flags that were set, but for those of join itself.
func passOn(c *cobra.Command) []string {
	var out []string
	own := []string{"token", "token-file", "enroll-only", "wait"}
	c.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(own, f.Name) {
			out = append(out, "--"+f.Name+"="+flagText(f))
		}
	})
	return out
}

// flagText is a flag's value as the command line takes it; lists print in
// brackets otherwise.
func flagText(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	return f.Value.String()
}
