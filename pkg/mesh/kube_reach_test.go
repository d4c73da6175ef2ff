package mesh

import (
	"fmt"
	"slices"
	"testing"
)

func TestAddressesOfALayer(t *testing.T) {
	t.Parallel()
	found := []KubeAddress{
		{Host: "203.0.113.9", Port: 443, Source: AddressBalancer}, {Host: "203.0.113.1", Port: 443, Source: AddressBalancer, Up: true},
		{Host: "203.0.113.9", Port: 443, Source: AddressBalancer}, {Host: "", Port: 443}, {Host: "203.0.113.7"},
	}
	nodes := []KubeAddress{{Host: "198.51.100.2", Port: 30443, Source: AddressNode}}
	for name, c := range map[string]struct {
		service EntryService
		found   []KubeAddress
		want    []string
	}{
		"what the cluster says, once and in order": {EntryService{Port: 443}, found, []string{"203.0.113.1:443 loadbalancer", "203.0.113.9:443 loadbalancer"}},
		"what nobody can dial": {EntryService{Port: 443}, []KubeAddress{
			{Host: "169.254.169.254", Port: 80}, {Host: "::ffff:169.254.169.254", Port: 80}, {Host: "0.0.0.0", Port: 443}, {Host: "ff02::1", Port: 443},
			{Host: "fe80::1%eth0", Port: 443}, {Host: "a b", Port: 443}, {Host: "../x", Port: 443}, {Host: "lb.cloud.example", Port: 443, Source: AddressBalancer},
		}, []string{"lb.cloud.example:443 loadbalancer"}},
		"nothing is known yet":                        {EntryService{Port: 443, Name: "in.example.net"}, nil, nil},
		"a name has the port of what it stands for":   {EntryService{Type: ServiceNodePort, Port: 443, Name: "in.example.net"}, nodes, []string{"198.51.100.2:30443 nodeport", "in.example.net:30443 name"}},
		"public addresses stand for the others":       {EntryService{Type: ServiceNodePort, Port: 443, Public: []string{"192.0.2.1", "192.0.2.2:8443"}}, nodes, []string{"192.0.2.1:30443 public", "192.0.2.2:8443 public"}},
		"public addresses of IPv6":                    {EntryService{Port: 443, Public: []string{"2001:db8::1", "[2001:db8::2]:8443"}}, nil, []string{"[2001:db8::1]:443 public", "[2001:db8::2]:8443 public"}},
		"public addresses before the port is known":   {EntryService{Type: ServiceNodePort, Public: []string{"192.0.2.1", "192.0.2.2:8443"}}, nil, []string{"192.0.2.2:8443 public"}},
		"public addresses at the node port asked for": {EntryService{Type: ServiceNodePort, NodePort: 31000, Public: []string{"192.0.2.1"}}, nil, []string{"192.0.2.1:31000 public"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, a := range (EntryLayer{Service: c.service}).Addresses(c.found) {
				if a.Up {
					t.Errorf("%s is up before anybody looked", a.HostPort())
				}
				got = append(got, a.HostPort()+" "+a.Source)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAddressesOfALayerAreBounded(t *testing.T) {
	t.Parallel()
	var found []KubeAddress
	for i := range 3 * MaxKubeAddresses {
		found = append(found, KubeAddress{Host: fmt.Sprintf("198.51.100.%d", i), Port: 30443, Source: AddressNode})
	}
	if n := len((EntryLayer{}).Addresses(found)); n != MaxKubeAddresses {
		t.Errorf("%d addresses", n)
	}
}

func TestWhatClientsAreToldOfClusters(t *testing.T) {
	t.Parallel()
	const id = KubeID("k1")
	a := KubeAddress{Host: "203.0.113.1", Port: 443, Source: AddressBalancer}
	b := KubeAddress{Host: "203.0.113.2", Port: 443, Source: AddressBalancer}
	dns := KubeAddress{Host: "in.example.net", Port: 443, Source: AddressName}
	up := func(a KubeAddress) KubeAddress { a.Up = true; return a }
	ready, draining := []KubePod{{Ready: true}}, []KubePod{{Ready: true, Ending: true}, {}}
	deployed := KubeCluster{ID: id, Name: "north", Wanted: EntryRelease{Number: 1}}
	own := []string{"entry.example.net:443"}
	for name, c := range map[string]struct {
		own   []string
		kube  KubeCluster
		state KubeState
		want  []string
	}{
		"those that answer":                  {own, deployed, KubeState{Addresses: []KubeAddress{up(a), b, dns}, Pods: ready}, []string{"entry.example.net:443", "203.0.113.1:443"}},
		"the name that leads to them":        {own, deployed, KubeState{Addresses: []KubeAddress{up(a), up(b), up(dns)}}, []string{"entry.example.net:443", "in.example.net:443"}},
		"none answers, but pods are ready":   {own, deployed, KubeState{Addresses: []KubeAddress{a, b, dns}, Pods: ready}, []string{"entry.example.net:443", "203.0.113.1:443", "203.0.113.2:443"}},
		"none answers, and no pod is ready":  {own, deployed, KubeState{Addresses: []KubeAddress{a, b}, Pods: draining}, own},
		"nothing else would be told":         {nil, deployed, KubeState{Addresses: []KubeAddress{a, b}}, []string{"203.0.113.1:443", "203.0.113.2:443"}},
		"nothing is deployed":                {own, KubeCluster{ID: id}, KubeState{Addresses: []KubeAddress{up(a)}}, own},
		"it is being taken away":             {own, KubeCluster{ID: id, Wanted: EntryRelease{Number: 1}, Removing: true}, KubeState{Addresses: []KubeAddress{up(a)}, Pods: ready}, own},
		"nobody has looked at it yet":        {own, deployed, KubeState{}, own},
		"what is configured by hand as well": {[]string{"203.0.113.1:443"}, deployed, KubeState{Addresses: []KubeAddress{up(a)}}, []string{"203.0.113.1:443"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := Config{EntryAddresses: slices.Clone(c.own)}
			got := conf.WithKubes(Kubes{map[KubeID]KubeCluster{id: c.kube}, map[KubeID]KubeState{id: c.state}})
			if !slices.Equal(got.EntryAddresses, c.want) {
				t.Errorf("got %v, want %v", got.EntryAddresses, c.want)
			}
			if !slices.Equal(conf.EntryAddresses, c.own) {
				t.Errorf("the configuration itself was changed: %v", conf.EntryAddresses)
			}
		})
	}
}

func TestClustersAreToldInTheOrderOfTheirNames(t *testing.T) {
	t.Parallel()
	k := Kubes{map[KubeID]KubeCluster{}, map[KubeID]KubeState{}}
	for i, name := range []string{"south", "east", "north"} {
		id := KubeID(fmt.Sprint(i))
		k.Clusters[id] = KubeCluster{ID: id, Name: name, Wanted: EntryRelease{Number: 1}}
		k.States[id] = KubeState{Addresses: []KubeAddress{{Host: name + ".example.net", Port: 443, Up: true}}}
	}
	want := []string{"east.example.net:443", "north.example.net:443", "south.example.net:443"}
	for range 5 {
		if got := (Config{}).WithKubes(k).EntryAddresses; !slices.Equal(got, want) {
			t.Fatalf("got %v", got)
		}
	}
}

// Every answer of the subscription service begins with it.
func BenchmarkWithKubes(b *testing.B) {
	k := Kubes{map[KubeID]KubeCluster{}, map[KubeID]KubeState{}}
	for i := range 3 {
		id := KubeID(fmt.Sprint(i))
		k.Clusters[id] = KubeCluster{ID: id, Name: fmt.Sprint("cluster", i), Wanted: EntryRelease{Number: 1}}
		var all []KubeAddress
		for j := range MaxKubeAddresses {
			all = append(all, KubeAddress{Host: fmt.Sprintf("198.51.%d.%d", i, j), Port: 30443, Source: AddressNode, Up: true})
		}
		k.States[id] = KubeState{Addresses: all}
	}
	conf := DefaultConfig()
	for b.Loop() {
		if c := conf.WithKubes(k); len(c.EntryAddresses) != 3*MaxKubeAddresses {
			b.Fatal("too few")
		}
	}
}
