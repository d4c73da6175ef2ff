package cmd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/internal/notify"
	"github.com/meshctl/meshctl/internal/supervise"
	"github.com/meshctl/meshctl/pkg/core"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func newCoreRun() *cobra.Command {
	return roleCommand("core", &cobra.Command{
		Use:   "run",
		Short: "Serve entries and let traffic out, as a core that has joined",
		Long: `Phones home and serves entries until SIGTERM; then it takes no new connections and
lets the open ones finish, up to drain.`,
	})
}

func (c *coreConfig) run(ctx context.Context, log *slog.Logger) error {
	files, err := openNode(c.Dir, log)
	if err != nil {
		return err
	}
	node, err := files.load(mesh.RoleCore)
	if errors.Is(err, mesh.ErrNotFound) {
		return &configError{mesh.WithHint(errors.New("this core has not joined"),
			"on the management server: meshctl admin token create --role core …; then here: meshctl core join --token-file -")}
	}
	if err != nil {
		return err
	}
	parts, err := files.parts(node, log)
	if err != nil {
		return err
	}
	cfg, err := c.config()
	if err != nil {
		return &configError{err}
	}
	relayLn, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return listenError("listen", c.Listen, err)
	}
	defer relayLn.Close()
	healthLn, err := listen(ctx, "metrics-listen", c.MetricsListen)
	if err != nil {
		return err
	}
	srv, err := core.New(core.Options{
		Config: cfg, Dir: c.Dir, RelayPort: uint16(relayLn.Addr().(*net.TCPAddr).Port), Node: node, Revocations: parts.revocations, Registerer: parts.registry, Log: parts.log,
		Observed: func() string { return parts.home.Status().Observed },
	})
	if err != nil {
		return err
	}
	parts.home.Changed = srv.Changed()

	// The relay comes last, so that it drains while revocations still arrive; its
	// listener is open already, so a dial-back that is early waits there.
	var serving atomic.Bool
	relay := supervise.Unit{Name: "relay", Run: supervise.Always(func(ctx context.Context) error {
		serving.Store(true)
		return srv.Serve(ctx, relayLn)
	})}
	units := append(parts.units(srv, srv.Ready, healthLn), relay)
	return notified(ctx, notify.Role{Serving: serving.Load, Ready: srv.Ready, Log: parts.log}, parts.registry,
		func(ctx context.Context) error { return supervise.Run(ctx, parts.log, units...) })
}
