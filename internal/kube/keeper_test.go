//go:build kube

package kube

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/client"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// kept is a namespace that a keeper of ours keeps, without a mesh: the pods are
// our small program, which answers all that is asked of an entry.
type kept struct {
	*Kube
	ns      string
	api     kube.API
	keeper  *client.Keeper
	release mesh.EntryRelease
	facts   kube.Facts

	mu   sync.Mutex
	last kube.Observation
}

func (k *Kube) keep(t *testing.T, ns string) *kept {
	t.Helper()
	k.permit(t, ns)
	var token string
	k.WaitFor(t, "a token", func() (err error) {
		token, err = k.admin.tokenOf(t.Context(), ns, kube.Account)
		return err
	})
	ca, err := os.ReadFile(k.control.pki.cert("ca"))
	if err != nil {
		t.Fatal(err)
	}
	p := &kept{Kube: k, ns: ns, api: kube.API{Server: "https://" + k.apiHere(t), CA: string(ca), Auth: mesh.KubeToken, Credential: mesh.Secret(token), Namespace: ns}}
	p.facts = kube.Facts{
		Mesh: "mesh-" + "aaaaaaaaaaaaaaaa", Cluster: "kube-" + "aaaaaaaaaaaaaaaa", Namespace: ns, Root: strings.Repeat("0f", 32),
		Mgmt: []string{"203.0.113.11:8443"}, Allow: []netip.AddrPort{netip.MustParseAddrPort("203.0.113.11:8443")}, Epoch: kube.Epoch{Mesh: 1, Leader: 1},
	}
	p.release.Layer = mesh.EntryLayer{Image: podImage, Replicas: 2, DrainWait: mesh.Duration(time.Second), DrainLimit: mesh.Duration(time.Second),
		Deadline: mesh.Duration(20 * time.Second), Service: mesh.EntryService{Class: balancerClass}, Resources: mesh.EntryResources{CPU: "50m", Memory: "32Mi", MemoryLimit: "64Mi"}}
	p.keeper = p.run(t, p.note)
	t.Cleanup(func() { k.dropNamespace(t, ns) })
	return p
}

// run runs a keeper for as long as the test.
func (p *kept) run(t *testing.T, report func(kube.Observation)) *client.Keeper {
	t.Helper()
	keeper := &client.Keeper{Report: report}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { keeper.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return keeper
}

func (p *kept) note(o kube.Observation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o.Drift = append(p.last.Drift, o.Drift...)
	p.last = o
}

func (p *kept) seen() kube.Observation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// want makes a release of what change makes of the layer. It returns the work.
func (p *kept) want(t testing.TB, change func(*mesh.EntryLayer)) kube.Work {
	t.Helper()
	var earlier []mesh.EntryRelease
	if p.release.Number > 0 {
		earlier = append(earlier, p.release)
	}
	change(&p.release.Layer)
	p.release.Number++
	p.release.Pods = kube.Pods(p.release.Number, p.release.Layer, earlier)
	objects, err := kube.Render(p.release, p.facts)
	if err != nil {
		t.Fatal(err)
	}
	w := kube.Work{Cluster: p.facts.Cluster, API: p.api, Mesh: p.facts.Mesh, Epoch: p.facts.Epoch, Objects: objects, Release: p.release.Number}
	p.keeper.Set(w)
	return w
}

// until waits for an observation of the release that is wanted.
func (p *kept) until(t testing.TB, what string, fits func(kube.Observation) bool) kube.Observation {
	t.Helper()
	took := p.WaitFor(t, what, func() error {
		if o := p.seen(); o.Release != p.release.Number || !fits(o) {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
	t.Logf("%s: %.1f s", what, took.Seconds())
	return p.seen()
}

func (p *kept) complete(t testing.TB, n int) {
	t.Helper()
	p.until(t, fmt.Sprintf("%d pods of release %d", n, p.release.Number), func(o kube.Observation) bool {
		return o.Failure == kube.NoFailure && o.Applied && o.Desired == n && o.Updated == n && o.Ready == n && o.Old == 0 && len(o.Pods) == n
	})
}

func (p *kept) path(kind string) string {
	version := map[string]string{"Deployment": "apps/v1", "DaemonSet": "apps/v1", "HorizontalPodAutoscaler": "autoscaling/v2"}[kind]
	if version == "" {
		version = "v1"
	}
	return pathOf(object{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": kube.Name, "namespace": p.ns}})
}

// TestKeeper has the real API server answer what keeps objects there.
func TestKeeper(t *testing.T) {
	p := theKube(t).keep(t, "keeper")
	p.want(t, func(*mesh.EntryLayer) {})
	p.complete(t, 2)
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a cluster that is as it should be is left alone", p.leftAlone},
		{"a scale restarts no pod", p.scaled},
		{"what others delete is put right", p.drift},
		{"a field of others is not forced", p.conflict},
		{"the number of pods is handed over and taken back", p.handedOver},
		{"one pod for each worker takes the place of a number of them", p.otherKind},
		{"an image that cannot start is said", p.stuck},
		{"who is late stops", p.late},
		{"what is not wanted any more goes", p.removed},
	} {
		if !t.Run(c.name, c.run) {
			return // the next would fail for the same reason
		}
	}
}

// apiHere is an address at which this process reaches the API server, whose hosts
// are on a network of their own.
func (k *Kube) apiHere(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { k.carry(t.Context(), c) })
		}
	})
	return ln.Addr().String()
}

func (k *Kube) carry(ctx context.Context, c net.Conn) {
	defer c.Close()
	server, err := k.control.Dial(ctx, "tcp", at(k.control.addr, apiPort))
	if err != nil {
		return
	}
	defer server.Close()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(server, c); server.Close() }) // ends as the connection does
	_, _ = io.Copy(c, server)
	c.Close()
	wg.Wait()
}
