//go:build kube

package kube

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// TestPolicyIsProbed finds out that the network plugin of these workers does not
// obey policies, and that it does once something like a plugin that does is there:
// with the same policy pods still serve.
func TestPolicyIsProbed(t *testing.T) {
	e := theEntries(t)
	e.policy(t, mesh.PolicyOpen)
	for _, n := range e.Nodes {
		if err := e.enforce(t, n); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := n.Feed("delete table ip enforced", "nft", "-f", "-"); err != nil {
				t.Error(err)
			}
		})
	}
	begin := time.Now()
	t.Log(e.admin(t, "entry", "deploy", "--max-connections", "9100"))
	e.policy(t, mesh.PolicyEnforced)
	took := time.Since(begin)
	l := e.begin(t, load{held: 20, perSecond: 10, life: 10 * time.Second, entry: e.clients()})
	<-time.After(3 * time.Second)
	n := l.finish(t)
	n.clean(t)
	record(t, "workers obey the NetworkPolicy", n.String(), took, "new pods said so")
}

// policy waits until management knows what pods found.
func (e *Entries) policy(t testing.TB, want mesh.KubePolicy) {
	t.Helper()
	e.wait(t, "pods find the policy "+string(want), func() error {
		v, err := e.view(t.Context())
		if err == nil && v.State.Policy != want {
			err = fmt.Errorf("they find it %q", v.State.Policy)
		}
		return err
	})
}

// enforce has a worker obey what the live policy says about what pods may reach.
func (e *Entries) enforce(t testing.TB, n *Node) error {
	t.Helper()
	policy, err := e.Kube.admin.get(t.Context(), entryPath("NetworkPolicy"))
	if err != nil {
		return err
	}
	var may []string
	for _, rule := range policy.list("spec", "egress") {
		for _, to := range rule.list("to") {
			for _, port := range rule.list("ports") {
				if cidr := to.text("ipBlock", "cidr"); cidr != "" {
					may = append(may, fmt.Sprintf("%s . %d", strings.TrimSuffix(cidr, "/32"), port.number("port")))
				}
			}
		}
	}
	if len(may) == 0 {
		return errors.New("the policy permits nothing")
	}
	return n.Feed(fmt.Sprintf(enforced, n.pods, strings.Join(may, ", "), n.pods), "nft", "-f", "-")
}

const enforced = `table ip enforced {
	chain forward {
		type filter hook forward priority filter; policy accept;
		ct state established,related accept
		ip saddr %s ip daddr . tcp dport { %s } accept
		ip saddr %s drop
	}
}
`
