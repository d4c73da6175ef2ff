package adminsvc

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// zone is a Resolver: addresses of names, or the name that one leads to.
type zone map[string][]string

func (z zone) LookupCNAME(_ context.Context, host string) (string, error) {
	if to := z[host]; len(to) == 1 && !isAddress(to[0]) {
		return to[0] + ".", nil
	}
	return host + ".", nil
}

func (z zone) LookupNetIP(ctx context.Context, network, host string) (out []netip.Addr, err error) {
	for _, to := range z[host] {
		if to == "broken" {
			return nil, &net.DNSError{Err: "server misbehaving", Name: host, Server: "192.0.2.53:53"}
		}
		if ip, err := netip.ParseAddr(to); err == nil {
			out = append(out, ip)
			continue
		}
		return z.LookupNetIP(ctx, network, to)
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}

// addKube adds a cluster in which entries were deployed, with what was seen of it.
func (r *rig) addKube(name string, layer mesh.EntryLayer, addresses ...mesh.KubeAddress) mesh.KubeID {
	r.t.Helper()
	id := mesh.NewKubeID()
	r.write("test", func(tx *store.Tx) error {
		err := store.Create(tx, r.Store.Kubes, id, mesh.KubeCluster{ID: id, Name: name, Wanted: mesh.EntryRelease{Number: 1, Layer: layer}})
		if err != nil {
			return err
		}
		return store.Create(tx, r.Store.KubeStates, id, mesh.KubeState{Cluster: id, Addresses: addresses})
	})
	return id
}

func balancer(host string) mesh.KubeAddress {
	return mesh.KubeAddress{Host: host, Port: 443, Source: mesh.AddressBalancer, Up: true}
}

func underName(name string) mesh.EntryLayer {
	return mesh.EntryLayer{Service: mesh.EntryService{Port: 443, Name: name}}
}

func TestRecordsOfTheNamesOfClusters(t *testing.T) {
	t.Parallel()
	const name = "in.example.net"
	v4, v6, lb := balancer("203.0.113.1"), balancer("2001:db8::1"), balancer("lb.cloud.example")
	for what, c := range map[string]struct {
		addresses []mesh.KubeAddress
		dns       zone
		want      []string // "type want found fault"
	}{
		"all is made":           {[]mesh.KubeAddress{v4, v6}, zone{name: {"203.0.113.1", "2001:db8::1"}}, []string{"A [203.0.113.1] [203.0.113.1]", "AAAA [2001:db8::1] [2001:db8::1]"}},
		"nothing is made":       {[]mesh.KubeAddress{v4}, zone{}, []string{"A [203.0.113.1] [] there is no such record"}},
		"one of two is made":    {[]mesh.KubeAddress{v4, balancer("203.0.113.2")}, zone{name: {"203.0.113.2"}}, []string{"A [203.0.113.1 203.0.113.2] [203.0.113.2]"}},
		"it leads elsewhere":    {[]mesh.KubeAddress{v4}, zone{name: {"203.0.113.1", "198.51.100.9"}}, []string{"A [203.0.113.1] [198.51.100.9 203.0.113.1] it leads to 198.51.100.9, where no entry of the cluster is"}},
		"a record too many":     {[]mesh.KubeAddress{v4}, zone{name: {"203.0.113.1", "2001:db8::9"}}, []string{"A [203.0.113.1] [203.0.113.1]", "AAAA [] [2001:db8::9] it leads to 2001:db8::9, where no entry of the cluster is"}},
		"an alias":              {[]mesh.KubeAddress{lb}, zone{name: {"lb.cloud.example"}, "lb.cloud.example": {"203.0.113.5"}}, []string{"CNAME [lb.cloud.example] [lb.cloud.example]"}},
		"kept as addresses":     {[]mesh.KubeAddress{lb}, zone{name: {"203.0.113.5"}, "lb.cloud.example": {"203.0.113.5"}}, []string{"CNAME [lb.cloud.example] [203.0.113.5]"}},
		"an alias of another":   {[]mesh.KubeAddress{lb}, zone{name: {"www.example.net"}, "www.example.net": {"198.51.100.1"}, "lb.cloud.example": {"203.0.113.5"}}, []string{"CNAME [lb.cloud.example] [198.51.100.1] it leads to 198.51.100.1, where no entry of the cluster is"}},
		"a balancer of nowhere": {[]mesh.KubeAddress{lb}, zone{}, []string{"A [lb.cloud.example] [] the cluster says lb.cloud.example, which leads nowhere"}},
		"no address yet":        {nil, zone{}, []string{"A [] [] the cluster says no address yet to which it could lead"}},
		"the resolver is ill":   {[]mesh.KubeAddress{v4}, zone{name: {"broken"}}, []string{"A [203.0.113.1] [] look up in.example.net: server misbehaving"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var hosts []string
			for _, a := range c.addresses {
				hosts = append(hosts, a.Host)
			}
			var got []string
			for _, r := range (survey{c.dns, name, hosts}).records(t.Context()) {
				got = append(got, strings.TrimSpace(r.Type+" ["+strings.Join(r.Want, " ")+"] ["+strings.Join(r.Found, " ")+"] "+r.Fault))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// Two clusters may share a name: it leads to the entries of both.
func TestClustersShareAName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Resolver = zone{"in.example.net": {"203.0.113.1", "203.0.113.2"}, "far.example.net": {"198.51.100.1"}}
	r.addKube("east", underName("in.example.net"), balancer("203.0.113.1"), mesh.KubeAddress{Host: "in.example.net", Port: 443, Source: mesh.AddressName})
	r.addKube("west", underName("in.example.net"), balancer("203.0.113.2"))
	r.addKube("far", underName("far.example.net"), balancer("203.0.113.3"))
	r.addKube("nameless", underName(""), balancer("203.0.113.4"))
	got := must(r.dnsRecordsOf(r.as(mesh.AdminAuditor), admin.None{}))(t).Records
	if len(got) != 2 || got[0].Name != "far.example.net" || got[0].Fault == "" || got[1].Fault != "" || len(got[1].Want) != 2 {
		t.Errorf("got %+v", got)
	}
}

// Addresses of clusters stand where those do that are configured.
func TestLinksNameTheEntriesOfClusters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	down := balancer("203.0.113.2")
	down.Up = false
	r.addKube("north", underName(""), balancer("203.0.113.1"), down)
	cfg := must(r.configAsTold(r.ctx()))(t)
	if want := []string{"192.0.2.1:443", "203.0.113.1:443"}; !slices.Equal(cfg.EntryAddresses, want) {
		t.Errorf("links name %v, want %v", cfg.EntryAddresses, want)
	}
	if stored := must(r.configGet(r.ctx(), admin.None{}))(t); len(stored.EntryAddresses) != 1 {
		t.Errorf("the configuration itself has them: %v", stored.EntryAddresses)
	}
	v := must(r.acmeGet(r.ctx(), admin.None{}))(t)
	if want := []string{"192.0.2.1:443", "203.0.113.1:443", "203.0.113.2:443"}; !slices.Equal(v.Entries, want) {
		t.Errorf("names may lead to %v, want %v", v.Entries, want)
	}
}
