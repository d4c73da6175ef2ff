//go:build kube

package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
)

// TestAutoscalerForReal lets the real autoscaler choose the number of pods from the
// processor time that they really use, while clients are served and management
// changes other things: nobody takes the number away from another, and no client
// notices.
func TestAutoscalerForReal(t *testing.T) {
	e := theEntries(t)
	e.serveMetrics(t)
	t.Log(e.admin(t, "entry", "deploy", "--cpu", "50m", "--autoscale", "2-4@60%"))
	owner := e.watchReplicas(t)

	l := e.begin(t, load{held: 40, perSecond: 10, life: 20 * time.Second, entry: e.clients()})
	begin := time.Now()
	quiet := e.busy(t, 4)
	e.wait(t, "the autoscaler has made more pods", func() error { return e.more(t, 2) })
	up := time.Since(begin)
	record(t, "real autoscaler, pods are busy", "-", up, "there were more than 2")
	t.Log(e.admin(t, "entry", "deploy", "--max-connections", "9010"))
	if err := e.more(t, 2); err != nil {
		t.Error("management took the number back:", err)
	}

	quiet()
	begin = time.Now()
	// New pods use more at first, so that it may be in no hurry.
	if err := retry(t.Context(), 2*patience, "the autoscaler has taken them away again", func() error {
		if n := e.object(t, "Deployment").number("spec", "replicas"); n != 2 {
			return fmt.Errorf("%d replicas", n)
		}
		return e.readyPods(t, 2)
	}); err != nil {
		t.Fatal(err)
	}
	down := time.Since(begin)
	t.Log(e.admin(t, "entry", "deploy", "--max-connections", "9011"))
	n := l.finish(t)
	n.clean(t)
	if err := owner(); err != nil {
		t.Error(err)
	}
	if v, err := e.view(t.Context()); err != nil || len(v.State.Conflicts) > 0 {
		t.Errorf("conflicts %v, %v", v.State, err)
	}
	record(t, "real autoscaler, and they are not any more", n.String(), down, "there were 2 again")
	e.restore(t)
}

// more wants more pods than n, as many as the autoscaler wants.
func (e *Entries) more(t testing.TB, n int) error {
	wanted := e.object(t, "Deployment").number("spec", "replicas")
	if wanted <= n {
		hpa := e.object(t, "HorizontalPodAutoscaler")
		return fmt.Errorf("%d replicas: %v", wanted, hpa["status"])
	}
	return e.readyPods(t, wanted)
}

// busy carries bulk through the entries over so many connections, 12 MB a second
// each way on each, until the function that it returns is called, or the test ends.
func (e *Entries) busy(t testing.TB, connections int) (quiet func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	quiet = func() { cancel(); wg.Wait() }
	t.Cleanup(quiet)
	for i := range connections {
		wg.Go(func() {
			for ctx.Err() == nil { // anew, when its pod is replaced
				if err := e.devices[i%len(e.devices)].carry(ctx, e.clients()); err != nil && ctx.Err() == nil {
					t.Log("bulk:", err)
				}
			}
		})
	}
	return quiet
}

// carry sends and receives until ctx ends.
func (d *device) carry(ctx context.Context, entry string) error {
	tun, err := d.connect(ctx, entry)
	if err != nil {
		return err
	}
	defer tun.Close()
	defer context.AfterFunc(ctx, func() { tun.Close() })()
	chunk := bytes.Repeat([]byte{7}, 64<<10)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := tun.Write(chunk); err != nil {
			return err
		}
		if _, err := io.ReadFull(tun, chunk); err != nil {
			return err
		}
	}
	return nil
}

// watchReplicas looks whose the number of pods is, until the function that it
// returns is called, which says what was wrong.
func (e *Entries) watchReplicas(t testing.TB) func() error {
	t.Helper()
	stop, found := make(chan struct{}), make(chan error, 1)
	end := sync.OnceValue(func() error { close(stop); return <-found })
	t.Cleanup(func() { _ = end() }) // who wants to know has asked
	go func() { found <- e.replicasOfOthers(stop) }()
	return end
}

func (e *Entries) replicasOfOthers(stop <-chan struct{}) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	looks, handed := 0, false
	for {
		if o, err := e.Kube.admin.get(context.Background(), entryPath("Deployment")); err == nil {
			looks++
			if n := o.number("spec", "replicas"); n < 2 || n > 4 {
				return fmt.Errorf("%d replicas were wanted for a moment", n)
			}
			for _, m := range o.list("metadata", "managedFields") {
				if m.at("fieldsV1", "f:spec", "f:replicas") == nil {
					continue
				}
				if m.text("manager") == kube.FieldManager {
					return errors.New("the number of pods is management's")
				}
				handed = handed || m.text("manager") == "kube-controller-manager" && m.text("subresource") == "scale"
			}
		}
		select {
		case <-stop:
			if !handed {
				return fmt.Errorf("the number of pods was never the autoscaler's, in %d looks", looks)
			}
			return nil
		case <-tick.C:
		}
	}
}
