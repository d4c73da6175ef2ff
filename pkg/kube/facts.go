package kube

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Facts are what Render needs beside a release.
type Facts struct {
	Mesh      mesh.ID
	Cluster   mesh.KubeID
	Namespace string
	// Root is whom pods trust when they enroll, as mesh.RootText writes it.
	Root string
	// Mgmt is where pods find management: host:port of every server.
	Mgmt []string
	// Allow is everything that pods may reach, beside the DNS of the cluster: the
	// servers and the cores, by address. Neither order nor repetition matters.
	Allow []netip.AddrPort
	Epoch Epoch
	// Paused keeps the pods of a rolling update as they are.
	Paused bool
}

// check returns ErrInvalid with every fault.
func (f Facts) check() error {
	var errs []error
	add := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("kube: render: "+format+": %w", append(args, mesh.ErrInvalid)...))
		}
	}
	_, err := mesh.ParseID(string(f.Mesh))
	errs = append(errs, err)
	_, err = mesh.ParseKubeID(string(f.Cluster))
	errs = append(errs, err, mesh.CheckNamespace(f.Namespace))
	_, err = mesh.ParseRoot(f.Root)
	errs = append(errs, err)
	add(len(f.Mgmt) > 0, "no address of management")
	for _, a := range f.Mgmt {
		host, port, err := net.SplitHostPort(a)
		add(err == nil && host != "" && port != "", "address of management %q: want host:port", mesh.Quotable(a))
	}
	for _, a := range f.Allow {
		add(a.IsValid() && a.Port() != 0, "address %v: want ip:port", a)
	}
	return errors.Join(errs...)
}
