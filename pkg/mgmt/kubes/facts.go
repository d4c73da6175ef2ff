package kubes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Render makes the objects of a release of a cluster, by what holds now. The epoch
// in them is the mesh's, of no leader. It returns ErrUnavailable when an address of
// management is not found.
func (s *Service) Render(ctx context.Context, c mesh.KubeCluster, r mesh.EntryRelease) ([]kube.Object, error) {
	var cfg mesh.Config
	var targets map[string]mesh.Target
	_, err := s.Store.View(ctx, func(tx *store.Tx) error {
		var err, err2 error
		cfg, err = store.Get(tx, s.Store.Config, store.ConfigKey)
		targets, err2 = store.List(tx, s.Store.Targets)
		return errors.Join(err, err2)
	})
	if err != nil {
		return nil, err
	}
	h := &hosts{resolver: s.Resolver}
	h.look(ctx, cfg.MgmtAddresses, s.instant())
	return s.render(c, r, kube.Epoch{Mesh: s.Epoch()}, cfg.MgmtAddresses, h, targets)
}

func (s *Service) render(c mesh.KubeCluster, r mesh.EntryRelease, epoch kube.Epoch, mgmt []string, h *hosts, targets map[string]mesh.Target) ([]kube.Object, error) {
	allow, err := h.found(mgmt)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		allow = append(allow, t.Addresses...)
	}
	return kube.Render(r, kube.Facts{
		Mesh: s.Mesh, Cluster: c.ID, Namespace: c.Namespace, Root: s.Root, Mgmt: mgmt, Allow: allow, Epoch: epoch,
		Paused: c.Paused && r.Number == c.Wanted.Number,
	})
}

// api is how the API of a cluster is reached.
func (s *Service) api(c mesh.KubeCluster) (kube.API, error) {
	credential, err := s.Store.Unseal(store.KubeCredentialPlace(c.ID), c.Credential)
	return kube.API{Server: c.Server, CA: c.CA, ServerName: c.ServerName, Auth: c.Auth, Credential: credential, Namespace: c.Namespace}, err
}

// splitAddress reads host:port.
func splitAddress(text string) (host string, port uint16, err error) {
	host, text, err = net.SplitHostPort(text)
	if err == nil {
		var n uint64
		n, err = strconv.ParseUint(text, 10, 16)
		port = uint16(n)
	}
	if err != nil {
		return "", 0, fmt.Errorf("kubes: address of management: %w: %w", err, mesh.ErrInvalid)
	}
	return host, port, nil
}

// found are where addresses lead. It returns ErrUnavailable when one of them leads
// nowhere: pods would be kept from it.
func (h *hosts) found(addresses []string) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	for _, a := range addresses {
		host, port, err := splitAddress(a)
		if err != nil {
			return nil, err
		}
		ips, err := h.of(host)
		if err != nil {
			return nil, mesh.WithHint(fmt.Errorf("kubes: address of management %s: %w: %w", a, err, mesh.ErrUnavailable),
				"entries would be kept from it: put its name right (mgmtAddresses: meshctl admin config set), or let this server find it")
		}
		for _, ip := range ips {
			out = append(out, netip.AddrPortFrom(ip, port))
		}
	}
	return out, nil
}
