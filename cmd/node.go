package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/meshctl/meshctl/internal/health"
	"github.com/meshctl/meshctl/internal/supervise"
	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// nodeFiles is what an entry or a core keeps in its data folder:
//
//	identity/         key and certificates
//	revocations.json  whom it no longer believes
//	node.json, …      what management told it
type nodeFiles struct {
	dir    string
	folder *identity.Folder
	state  *control.State
}

func openNode(dir string, log *slog.Logger) (nodeFiles, error) {
	if _, err := identity.OpenFolder(dir); err != nil { // its rules hold for all of the folder
		return nodeFiles{}, folderError(err)
	}
	f, err := identity.OpenFolder(identityDir(dir))
	if err != nil {
		return nodeFiles{}, folderError(err)
	}
	st, err := control.OpenState(dir, log)
	if err != nil {
		return nodeFiles{}, folderError(err)
	}
	return nodeFiles{dir, f, st}, nil
}

func identityDir(dir string) string { return filepath.Join(dir, "identity") }

// folderError marks what is wrong with the data folder as a matter of
// configuration: a restart does not mend it.
func folderError(err error) error {
	if errors.Is(err, mesh.ErrUnavailable) {
		return err
	}
	if errors.Is(err, os.ErrPermission) && mesh.Hint(err) == "" {
		err = mesh.WithHint(err, "run it as the folder's owner, or set dir to a folder that this user may make")
	}
	return &configError{err}
}

// load returns the identity, or ErrNotFound when the node never enrolled.
func (n nodeFiles) load(role mesh.Role) (*identity.Node, error) {
	node, err := n.folder.Load()
	if errors.Is(err, mesh.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		return nil, folderError(err)
	}
	if got := node.Identity().Role; got != role {
		return nil, &configError{mesh.WithHint(fmt.Errorf("data folder %s belongs to the role %s, not %s: %w", n.dir, got, role, mesh.ErrInvalid), "set dir to a folder of its own for each role")}
	}
	return node, nil
}

// enroll trades a token for an identity.
func (n nodeFiles) enroll(ctx context.Context, role mesh.Role, token mesh.Secret, wait bool, log *slog.Logger) (*identity.Node, error) {
	t, err := mesh.ParseJoinToken(token.Reveal())
	if err != nil {
		return nil, err
	}
	return n.enrollAs(ctx, control.EnrollConfig{Token: t, Role: role, Wait: wait, Log: log})
}

// enrollPod has management ask the cluster which pod this is.
func (n nodeFiles) enrollPod(ctx context.Context, pod *control.Pod, log *slog.Logger) (*identity.Node, error) {
	return n.enrollAs(ctx, control.EnrollConfig{Pod: pod, Role: mesh.RoleEntry, Wait: true, Log: log})
}

func (n nodeFiles) enrollAs(ctx context.Context, cfg control.EnrollConfig) (*identity.Node, error) {
	cfg.Folder, cfg.State, cfg.Version = n.folder, n.state, version().Version
	e, err := control.Enroll(ctx, cfg)
	if err != nil {
		return nil, err
	}
	cfg.Log.Info("enrolled", "node", e.Node.Identity().Node(), "name", e.Name)
	return e.Node, nil
}

// nodeParts are the parts that an entry and a core have in common.
type nodeParts struct {
	log         *slog.Logger
	registry    *prometheus.Registry
	node        *identity.Node
	revocations *identity.Revocations
	home        *control.PhoneHome
	renewer     *control.Renewer
}

func (n nodeFiles) parts(node *identity.Node, log *slog.Logger) (*nodeParts, error) {
	log = log.With("node", node.Identity().Node())
	revs, err := identity.OpenRevocations(filepath.Join(n.dir, "revocations.json"), node.Roots(), node.Identity().Mesh)
	if err != nil {
		return nil, folderError(err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	early := make(chan control.EarlyRenewal, 1)
	return &nodeParts{
		log: log, registry: reg, node: node, revocations: revs,
		home:    &control.PhoneHome{Node: node, Folder: n.folder, State: n.state, Revocations: revs, Version: version().Version, Log: log, Early: early},
		renewer: &control.Renewer{Node: node, Folder: n.folder, State: n.state, Revocations: revs, Log: log, Early: early},
	}, nil
}

// units are the control parts, to stand before what serves clients, and health.
func (p *nodeParts) units(role control.RoleHandler, ready func(context.Context) error, healthLn net.Listener) []supervise.Unit {
	p.home.Role = role
	units := []supervise.Unit{
		{Name: "phone-home", Run: supervise.Always(p.home.Run)},
		{Name: "renewal", Run: supervise.Always(p.renewer.Run)},
	}
	if healthLn == nil {
		return units
	}
	h := &health.Server{Ready: ready, Gather: p.registry, Log: p.log}
	return append([]supervise.Unit{{Name: "health", Run: supervise.Always(func(ctx context.Context) error { return h.Serve(ctx, healthLn) })}}, units...)
}

// listen opens a listener that the configuration names; none for "".
func listen(ctx context.Context, key, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, listenError(key, addr, err)
	}
	return ln, nil
}

// listenError says which key names an address that cannot be listened on. Only
// a port in use may mend itself.
func listenError(key, addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return mesh.WithHint(fmt.Errorf("%s %s: the port is in use: %w", key, addr, mesh.ErrUnavailable),
			"find who has it with `ss -ltnp`, or set "+key+" to another port")
	case errors.Is(err, syscall.EACCES):
		return &configError{mesh.WithHint(fmt.Errorf("%s %s: not permitted: %w", key, addr, err),
			"use a port from 1024 on, or give the service CAP_NET_BIND_SERVICE")}
	}
	return &configError{mesh.WithHint(fmt.Errorf("%s %s: %w", key, addr, err), "set "+key+" to an address of this machine")}
}
