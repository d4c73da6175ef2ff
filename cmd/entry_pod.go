package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/meshctl/meshctl/internal/supervise"
	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/entry"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// entryPod is how an entry that is a pod of a Kubernetes cluster shows which.
type entryPod struct {
	Cluster   string `key:"cluster" help:"id of the Kubernetes cluster that this entry is a pod of; it then needs no join token"`
	TokenFile string `key:"token-file" help:"file with the pod's service account token for the mesh"`
	Root      string `key:"root" help:"SHA-256 of the mesh's root certificate, in hexadecimal"`
	MgmtFile  string `key:"mgmt-file" help:"file with the addresses of management, host:port, one in a line"`
}

func defaultEntryPod() entryPod {
	return entryPod{TokenFile: "/var/run/meshctl/token", MgmtFile: "/etc/meshctl/mgmt"}
}

// parse returns nil for an entry that is no pod.
func (p entryPod) parse(joinToken string) (*control.Pod, error) {
	if p.Cluster == "" {
		if p.Root != "" {
			return nil, fmt.Errorf("configuration: kubernetes.root: kubernetes.cluster is not set: %w", mesh.ErrInvalid)
		}
		return nil, nil
	}
	var errs []error
	add := func(key string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("configuration: %s: %w", key, err))
		}
	}
	absolute := func(key, file string) {
		if !filepath.IsAbs(file) {
			add(key, fmt.Errorf("%q: want an absolute path: %w", mesh.Quotable(file), mesh.ErrInvalid))
		}
	}
	id, err := mesh.ParseKubeID(p.Cluster)
	add("kubernetes.cluster", err)
	root, err := mesh.ParseRoot(p.Root)
	add("kubernetes.root", err)
	absolute("kubernetes.token-file", p.TokenFile)
	absolute("kubernetes.mgmt-file", p.MgmtFile)
	if joinToken != "" {
		add("token-file", fmt.Errorf("a pod has no join token: %w", mesh.ErrInvalid))
	}
	return &control.Pod{Cluster: id, TokenFile: p.TokenFile, Root: root, MgmtFile: p.MgmtFile}, errors.Join(errs...)
}

// policyProbe looks whether the pod's NetworkPolicy is in force; nil outside of a
// cluster. Kubernetes tells every container where its API is, where these pods have
// no business.
func (c *entryConfig) policyProbe(parts *nodeParts) *entry.PolicyProbe {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if c.pod == nil || host == "" || port == "" {
		return nil
	}
	changed := make(chan struct{}, 1)
	parts.home.Changed = changed
	return &entry.PolicyProbe{Address: net.JoinHostPort(host, port), Changed: changed, Log: parts.log}
}

// podUnits are what a pod runs beside what every entry runs.
func (c *entryConfig) podUnits(files nodeFiles, probe *entry.PolicyProbe, log *slog.Logger) []supervise.Unit {
	if c.pod == nil {
		return nil
	}
	units := []supervise.Unit{{Name: "mgmt-file", Run: supervise.Always(func(ctx context.Context) error {
		return c.pod.FollowAddresses(ctx, files.state, log)
	})}}
	if probe != nil {
		units = append(units, supervise.Unit{Name: "policy", Run: supervise.Always(probe.Run)})
	}
	return units
}
