package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/meshctl/meshctl/internal/notify"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

func newMgmtServe() *cobra.Command {
	return roleCommand("mgmt", &cobra.Command{
		Use:   "serve",
		Short: "Found a mesh on this server, or resume it, and serve",
		Long: `Founds a mesh when the data folder is empty: it makes the root key, seals it under
a passphrase (asked for on the terminal, or read from --passphrase-file), and
keeps the passphrase nowhere. With a mesh in the folder it resumes and asks for
nothing. Then it serves until SIGTERM. Who founds prints the recovery kit, which
"meshctl mgmt recovery-kit" prints again.

With --bootstrap-expect 3 it founds the mesh together with the other --peers, all
started with the same --bootstrap-secret-file, in any order. The passphrase is
asked for on the server whose name comes first. With --token-file it comes into a
mesh that exists: see "meshctl admin mgmt add".`,
	})
}

func (c *mgmtConfig) run(ctx context.Context, log *slog.Logger) error {
	// Metrics of Go and of the process come with those of etcd, which are global.
	reg := prometheus.NewRegistry()
	founds := false
	srv := &mgmt.Server{
		Config: c.Config, Version: version().Version, Registry: reg, Log: log,
		Passphrase: func(ctx context.Context) (mesh.Secret, error) {
			founds = true
			return c.passphrase(ctx)
		},
	}
	if file := cmp.Or(c.BootstrapSecretFile, credential("bootstrap-secret")); file != "" {
		srv.BootstrapSecret = func(ctx context.Context) (mesh.Secret, error) {
			return readSecretFile(ctx, "bootstrap-secret-file", file, os.Stdin)
		}
	}
	if file := cmp.Or(c.TokenFile, credential("token")); file != "" {
		srv.Token = func(ctx context.Context) (mesh.JoinToken, error) {
			text, err := readSecretFile(ctx, "token-file", file, os.Stdin)
			if err != nil {
				return mesh.JoinToken{}, err
			}
			return mesh.ParseJoinToken(text.Reveal())
		}
	}
	if file := cmp.Or(c.Ping.URLFile, credential("ping-url")); file != "" {
		srv.PingURL = func(ctx context.Context) (mesh.Secret, error) {
			return readSecretFile(ctx, "ping.url-file", file, os.Stdin)
		}
	}
	if file := cmp.Or(c.Bot.TokenFile, credential("bot-token")); file != "" {
		srv.BotToken = func(ctx context.Context) (mesh.Secret, error) {
			return readSecretFile(ctx, "bot.token-file", file, os.Stdin)
		}
	}
	if file := cmp.Or(c.Bot.ProxyFile, credential("bot-proxy")); file != "" {
		srv.BotProxy = func(ctx context.Context) (mesh.Secret, error) {
			return readSecretFile(ctx, "bot.proxy-file", file, os.Stdin)
		}
	}
	var serving atomic.Bool
	ready := func(context.Context) error {
		if !serving.Load() {
			return errors.New("founding, or waiting for etcd")
		}
		return nil
	}
	return notified(ctx, notify.Role{Serving: serving.Load, Ready: ready, Log: log}, reg, func(ctx context.Context) error {
		return setupError(srv.Run(ctx, func() {
			serving.Store(true)
			if founds {
				c.printKit(os.Stdout, log)
			}
		}))
	})
}

// passphrase reads the root passphrase from its file or asks for it twice.
func (c *mgmtConfig) passphrase(ctx context.Context) (mesh.Secret, error) {
	if file := cmp.Or(c.PassphraseFile, credential("passphrase")); file != "" {
		p, err := readSecretFile(ctx, "passphrase-file", file, os.Stdin)
		if err != nil {
			return "", &configError{err}
		}
		return p, checkPassphrase(p)
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", mesh.WithHint(fmt.Errorf("this folder has no mesh yet, and there is no terminal to ask on: %w", mesh.ErrInvalid),
			"found the mesh from a terminal once, or give --passphrase-file (mode 0600)")
	}
	return askPassphrase(ctx)
}

func askPassphrase(ctx context.Context) (mesh.Secret, error) {
	fmt.Fprintln(os.Stderr, "Founding a new mesh. The root passphrase opens the key that all trust hangs on.\nIt is stored nowhere: keep it safe and off this server.")
	first, err := askSecret(ctx, os.Stdin, os.Stderr, fmt.Sprintf("Root passphrase, at least %d characters: ", minPassphrase))
	if err != nil {
		return "", err
	}
	if err := checkPassphrase(first); err != nil {
		return "", err
	}
	second, err := askSecret(ctx, os.Stdin, os.Stderr, "The same again: ")
	if err != nil {
		return "", err
	}
	if first.Reveal() != second.Reveal() {
		return "", fmt.Errorf("the two are not the same: %w", mesh.ErrInvalid)
	}
	return first, nil
}
