package adminsvc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	lookupTime = 5 * time.Second // for one name
	lookups    = 8               // names at once
)

// Resolver looks up names; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupCNAME(ctx context.Context, host string) (string, error)
}

// kubes are the clusters that entries run in, and how they are.
func (s *Service) kubes(ctx context.Context) (k mesh.Kubes, err error) {
	if k.Clusters, _, err = s.Store.Kubes.List(ctx); err == nil {
		k.States, _, err = s.Store.KubeStates.List(ctx)
	}
	return k, err
}

// configAsTold is the configuration with the addresses of entries as clients are
// to dial them, those in clusters among them.
func (s *Service) configAsTold(ctx context.Context) (mesh.Config, error) {
	cfg, err := s.configGet(ctx, admin.None{})
	if err != nil {
		return cfg, err
	}
	k, err := s.kubes(ctx)
	return cfg.WithKubes(k), err
}

// entryHosts are all addresses of entries, whether they answer or not.
func (s *Service) entryHosts(tx *store.Tx, cfg mesh.Config) ([]string, error) {
	var k mesh.Kubes
	var err error
	if k.Clusters, err = store.List(tx, s.Store.Kubes); err != nil {
		return nil, err
	}
	k.States, err = store.List(tx, s.Store.KubeStates)
	return slices.Concat(cfg.EntryAddresses, k.Known()), err
}

func (s *Service) dnsRecordsOf(ctx context.Context, _ admin.None) (admin.DNSRecords, error) {
	k, err := s.kubes(ctx)
	if err != nil {
		return admin.DNSRecords{}, err
	}
	wanted := k.Names()
	names := slices.Sorted(maps.Keys(wanted))
	found := make([][]admin.DNSRecord, len(names))
	var g errgroup.Group
	g.SetLimit(lookups)
	for i, name := range names {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, lookupTime)
			defer cancel()
			found[i] = survey{s.resolver(), name, wanted[name]}.records(ctx)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return admin.DNSRecords{}, err
	}
	return admin.DNSRecords{Records: append([]admin.DNSRecord{}, slices.Concat(found...)...)}, nil
}

func (s *Service) resolver() Resolver {
	if s.Resolver != nil {
		return s.Resolver
	}
	return net.DefaultResolver
}

// survey compares what a name leads to with the hosts that it should.
type survey struct {
	r     Resolver
	name  string
	hosts []string
}

func (v survey) records(ctx context.Context) []admin.DNSRecord {
	if len(v.hosts) == 0 {
		return []admin.DNSRecord{{Name: v.name, Type: "A", Want: []string{}, Fault: "the cluster says no address yet to which it could lead"}}
	}
	want, err := v.addresses(ctx)
	if err != nil {
		return []admin.DNSRecord{{Name: v.name, Type: "A", Want: v.hosts, Fault: mesh.Plain(err)}}
	}
	have, err := v.lookUp(ctx, v.name)
	if alias := v.hosts[0]; len(v.hosts) == 1 && !isAddress(alias) {
		return []admin.DNSRecord{v.alias(ctx, alias, want, have, err)}
	}
	var out []admin.DNSRecord
	for _, kind := range []string{"A", "AAAA"} {
		r := admin.DNSRecord{Name: v.name, Type: kind, Want: ofKind(want, kind), Found: ofKind(have, kind)}
		r.Fault = fault(r, err)
		if len(r.Want)+len(r.Found) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// alias is the record of a name that leads to another. Some providers keep it as
// the addresses of that, which is as good.
func (v survey) alias(ctx context.Context, to string, want, have []netip.Addr, err error) admin.DNSRecord {
	r := admin.DNSRecord{Name: v.name, Type: "CNAME", Want: []string{to}, Found: texts(have)}
	r.Fault = fault(admin.DNSRecord{Want: texts(want), Found: r.Found}, err)
	if next, err := v.r.LookupCNAME(ctx, v.name); err == nil && r.Fault == "" {
		if next = strings.TrimSuffix(next, "."); next != v.name {
			r.Found = []string{next}
		}
	}
	return r
}

// fault says what is wrong; that some of what could be there is missing is not.
func fault(r admin.DNSRecord, err error) string {
	strange := slices.DeleteFunc(slices.Clone(r.Found), func(ip string) bool { return slices.Contains(r.Want, ip) })
	switch {
	case err != nil:
		return mesh.Plain(err)
	case len(strange) > 0:
		return "it leads to " + strings.Join(strange, ", ") + ", where no entry of the cluster is"
	case len(r.Found) == 0:
		return "there is no such record"
	}
	return ""
}

// addresses are those of all hosts.
func (v survey) addresses(ctx context.Context) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, host := range v.hosts {
		some, err := v.lookUp(ctx, host)
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			return nil, fmt.Errorf("admin: the cluster says %s, which leads nowhere: %w", host, mesh.ErrUnavailable)
		}
		out = append(out, some...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

// lookUp returns nothing for a name that does not exist.
func (v survey) lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	ips, err := v.r.LookupNetIP(ctx, "ip", host)
	if d, ok := errors.AsType[*net.DNSError](err); ok {
		if d.IsNotFound {
			return nil, nil
		}
		err = errors.New(d.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("admin: look up %s: %w: %w", host, err, mesh.ErrUnavailable)
	}
	for i, ip := range ips {
		ips[i] = ip.Unmap()
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return slices.Compact(ips), nil
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func ofKind(ips []netip.Addr, kind string) []string {
	return texts(slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool { return ip.Is4() != (kind == "A") }))
}

func texts(ips []netip.Addr) []string {
	out := []string{}
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	return out
}
