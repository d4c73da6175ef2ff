package cmd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/internal/notify"
	"github.com/meshctl/meshctl/internal/supervise"
	"github.com/meshctl/meshctl/pkg/entry"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/gateway"
)

func newEntryRun() *cobra.Command {
	return roleCommand("entry", &cobra.Command{
		Use:   "run",
		Short: "Accept clients and relay each to the core its route names",
		Long: `Enrolls with the token in --token-file when this folder has no identity yet or its
certificate has ended, then accepts clients. On SIGTERM it stops accepting and lets
open connections finish, up to drain.limit.

As a pod of a Kubernetes cluster that management knows, it needs no token: with
kubernetes.cluster set it shows the token of its service account, and management asks
the cluster. ` + "`meshctl admin entry deploy`" + ` sets all of that.`,
	})
}

func (c *entryConfig) run(ctx context.Context, log *slog.Logger) error {
	if err := entry.CheckFiles(c.Limits.Connections); err != nil {
		return &configError{err}
	}
	files, err := openNode(c.Dir, log)
	if err != nil {
		return err
	}
	node, err := c.identity(ctx, files, log)
	if err != nil {
		return err
	}
	parts, err := files.parts(node, log)
	if err != nil {
		return err
	}
	parts.renewer.Pod, parts.renewer.Version = c.pod, version().Version
	clients, err := entry.Listen(ctx, c.Listen)
	if err != nil {
		return listenError("listen", c.Listen, err)
	}
	defer clients.Close()
	healthLn, err := listen(ctx, "metrics-listen", c.MetricsListen)
	if err != nil {
		return err
	}

	probe := c.policyProbe(parts)
	settings := &entry.Settings{}
	srv := &entry.Server{
		Node: node, Revocations: parts.revocations, Settings: settings,
		Limits:       entry.Limits{Total: c.Limits.Connections, PerSource: c.Limits.PerSource, Hellos: c.Limits.Hellos},
		Proxies:      entry.Proxies{Trusted: c.trusted, Required: c.Proxies.Required},
		HelloTimeout: c.HelloTimeout,
		DrainWait:    c.Drain.Wait, DrainLimit: c.Drain.Limit,
		Policy:  probe,
		Metrics: parts.registry, Log: parts.log,
	}
	routes, err := gateway.Dial(gateway.Config{
		Addresses: files.state.Addresses, Node: node, Revocations: parts.revocations,
		PerTry: c.LookupTimeout, StaleFor: settings.StaleFor, OnTarget: srv.TargetChanged,
		Metrics: parts.registry, Log: parts.log,
	})
	if err != nil {
		return err
	}
	defer routes.Close()
	srv.Router = routes

	units := append(parts.units(srv, srv.Ready, healthLn), c.podUnits(files, probe, parts.log)...)
	units = append(units,
		supervise.Unit{Name: "routes", Run: supervise.Always(routes.Run)},
		supervise.Unit{Name: "clients", Run: supervise.Always(func(ctx context.Context) error { return srv.Serve(ctx, clients) })})
	return notified(ctx, notify.Role{Serving: srv.Serving, Ready: srv.Ready, Log: parts.log}, parts.registry,
		func(ctx context.Context) error { return supervise.Run(ctx, parts.log, units...) })
}

// identity loads the entry's identity, or enrolls at the first start and with a
// new token after its certificate has ended.
func (c *entryConfig) identity(ctx context.Context, files nodeFiles, log *slog.Logger) (*identity.Node, error) {
	node, err := files.load(mesh.RoleEntry)
	switch {
	case err == nil && !time.Now().Before(node.Leaf().NotAfter):
		return c.again(ctx, files, node, log), nil
	case !errors.Is(err, mesh.ErrNotFound):
		return node, err
	}
	return c.enroll(ctx, files, true, log)
}

// again enrolls an entry whose certificate has ended, if there is a token that is
// good. Otherwise it stays what it was: it may still renew.
func (c *entryConfig) again(ctx context.Context, files nodeFiles, was *identity.Node, log *slog.Logger) *identity.Node {
	if c.pod != nil || cmp.Or(c.TokenFile, credential("token")) == "" {
		return was // a pod renews as it enrolled
	}
	node, err := c.enroll(ctx, files, false, log)
	if err != nil {
		log.Warn("not enrolled anew", "err", err, "ends", was.Leaf().NotAfter)
		return was
	}
	return node
}

func (c *entryConfig) enroll(ctx context.Context, files nodeFiles, wait bool, log *slog.Logger) (*identity.Node, error) {
	if c.pod != nil {
		return files.enrollPod(ctx, c.pod, log)
	}
	file := cmp.Or(c.TokenFile, credential("token"))
	if file == "" {
		return nil, &configError{mesh.WithHint(errors.New("this entry has not enrolled, and token-file is not set"),
			"on the management server: meshctl admin token create --role entry --name NAME; then --token-file FILE here")}
	}
	token, err := readSecretFile(ctx, "token-file", file, os.Stdin)
	if err != nil {
		return nil, &configError{err}
	}
	return files.enroll(ctx, mesh.RoleEntry, token, wait, log)
}
