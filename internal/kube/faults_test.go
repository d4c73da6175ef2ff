//go:build kube

package kube

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWorkerDrained takes the pods of one worker away by evictions (K-03).
func TestWorkerDrained(t *testing.T) {
	e := theEntries(t)
	e.evenly(t)
	l := e.begin(t, steady(e.clients()))
	<-time.After(2 * time.Second)
	took := e.DrainNode(t, "w1")
	if took < time.Second {
		t.Fatalf("w1 had no pod that drains: it was empty after %s", took)
	}
	e.Cordon(t, "w1", false)
	<-time.After(2 * time.Second)
	n := l.finish(t)
	n.clean(t)
	record(t, "worker drained", n.String(), took, "its pods are gone")
	e.evenly(t)
}

// TestWorkerKilled cuts the power of a worker: what it carried is lost, and new
// connections fail for as long as the balancer does not know, and no longer.
func TestWorkerKilled(t *testing.T) {
	e := theEntries(t)
	l := e.begin(t, load{held: 50, perSecond: 20, life: 20 * time.Second, entry: e.clients()})
	<-time.After(2 * time.Second)
	begin := time.Now()
	e.KillNode(t, "w2")
	e.WaitFor(t, "the balancer has noticed", func() error {
		if healthy := e.service().healthy(); len(healthy) != 1 {
			return fmt.Errorf("it has %v", healthy)
		}
		return nil
	})
	noticed := time.Since(begin)
	fresh := e.begin(t, load{held: 10, perSecond: 20, life: 20 * time.Second, entry: e.clients()})
	e.WaitNode(t, "w2", "Unknown")
	n := l.finish(t)
	after := fresh.finish(t)
	after.clean(t)
	record(t, "worker killed", n.String(), noticed, "the balancer knew; of "+fmt.Sprint(after.opened)+" connections after that none failed")
	e.ReplaceNode(t, "w2")
	e.evenly(t)
}

func (e *Entries) service() *service {
	e.balancer.mu.Lock()
	defer e.balancer.mu.Unlock()
	return e.balancer.services[entryPath("Service")]
}

// awayVariable says how long the API server is away; ten minutes are of interest.
const awayVariable = "MESHCTL_KUBE_AWAY"

// TestAPIServerAway has the entries serve while nobody can change them, and finds
// the same pods after it (K-04).
func TestAPIServerAway(t *testing.T) {
	e := theEntries(t)
	away, err := time.ParseDuration(cmp.Or(os.Getenv(awayVariable), "45s"))
	if err != nil {
		t.Fatal(err)
	}
	before := e.uids(t)
	l := e.begin(t, steady(e.clients()))
	<-time.After(time.Second)
	e.StopAPIServer(t)
	begin := time.Now()
	said := e.wait(t, "management says that the API is away", func() error {
		v, err := e.view(t.Context())
		if err == nil && v.State.Contact == "" {
			err = fmt.Errorf("seen %v", v.State.Seen)
		}
		return err
	})
	t.Logf("said after %v", said)
	<-time.After(away - time.Since(begin))
	e.StartAPIServer(t)
	took := e.complete(t)
	<-time.After(2 * time.Second)
	n := l.finish(t)
	n.clean(t)
	if after := e.uids(t); !slices.Equal(before, after) {
		t.Errorf("pods were %v and are %v", before, after)
	}
	for _, p := range e.pods(t) {
		if restarts := p.number("status", "containerStatuses", 0, "restartCount"); restarts != 0 {
			t.Errorf("%s was restarted %d times", p.text("metadata", "name"), restarts)
		}
	}
	record(t, fmt.Sprintf("API server away for %v", away), n.String(), took, "management said that all is well again")
}

// cutOffVariable says how long workers are cut off; a quarter of an hour is of
// interest, by when a cluster moves pods away from workers that it lost one by one.
const cutOffVariable = "MESHCTL_KUBE_CUTOFF"

// blink is for how long new connections may be refused once workers reach the
// control plane again: it tells their proxies that no pod is ready, before it hears
// from kubelet that they are. A balancer that asks the pods themselves sees none of it.
const blink = 10 * time.Second

// TestWorkersCutOff has no worker reach the control plane: it takes their pods for
// not ready, and they serve nevertheless, and are the same ones after it (K-04).
func TestWorkersCutOff(t *testing.T) {
	e := theEntries(t)
	long, err := time.ParseDuration(cmp.Or(os.Getenv(cutOffVariable), "40s"))
	if err != nil {
		t.Fatal(err)
	}
	before := e.uids(t)
	l := e.begin(t, steady(e.clients()))
	<-time.After(time.Second)
	begin := time.Now()
	heal := e.cutOff(t)
	for name := range e.Nodes {
		e.WaitNode(t, name, "Unknown")
	}
	<-time.After(long - time.Since(begin))
	cut := time.Since(begin)
	heal()
	for name := range e.Nodes {
		e.WaitNode(t, name, "True")
	}
	took := e.complete(t)
	<-time.After(5 * time.Second)
	n := l.finish(t)
	if n.lost > 0 || n.failed > int(blink.Seconds())*l.perSecond {
		t.Errorf("%d open connections were lost, and %d new ones failed; want none, and %v of them at most", n.lost, n.failed, blink)
	}
	if after := e.uids(t); !slices.Equal(before, after) {
		t.Errorf("pods were %v and are %v", before, after)
	}
	record(t, fmt.Sprintf("workers cut off from the control plane for %.0f s", cut.Seconds()), n.String(), took, "management said that all is well again")
}

// cutOff makes packets between the workers and the control plane vanish, until the
// function that it returns is called, or the test ends.
func (k *Kube) cutOff(t testing.TB) (heal func()) {
	t.Helper()
	var rules strings.Builder
	rules.WriteString("table bridge cut {\n\tchain forward {\n\t\ttype filter hook forward priority 0; policy accept;\n")
	for _, n := range k.Nodes {
		fmt.Fprintf(&rules, "\t\tip saddr %[1]s ip daddr %[2]s drop\n\t\tip saddr %[2]s ip daddr %[1]s drop\n", n.Addr, k.control.addr)
	}
	if err := k.fabric.hub().Feed(rules.String()+"\t}\n}\n", "nft", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	heal = sync.OnceFunc(func() {
		if err := k.fabric.hub().Feed("delete table bridge cut", "nft", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(heal)
	return heal
}

// TestDriftIsPutRight has somebody delete and change what management keeps.
func TestDriftIsPutRight(t *testing.T) {
	e := theEntries(t)
	v, err := e.view(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := e.begin(t, load{held: 20, perSecond: 10, life: 10 * time.Second, entry: e.clients()})
	begin := time.Now()
	if err := e.Kube.admin.delete(t.Context(), entryPath("ConfigMap")); err != nil {
		t.Fatal(err)
	}
	e.WaitFor(t, "the ConfigMap is there again", func() error {
		_, err := e.Kube.admin.get(t.Context(), entryPath("ConfigMap"))
		return err
	})
	took := time.Since(begin)
	e.wait(t, "it is noted", func() error {
		now, err := e.view(t.Context())
		if err == nil && now.State.Drift <= v.State.Drift {
			err = fmt.Errorf("drift %d", now.State.Drift)
		}
		return err
	})
	n := l.finish(t)
	n.clean(t)
	record(t, "ConfigMap deleted by somebody", n.String(), took, "it was there again")
}
