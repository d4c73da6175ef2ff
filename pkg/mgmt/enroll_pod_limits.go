package mgmt

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/meshctl/meshctl/internal/ratelimit"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/kube/review"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// freshBurst of new entries may come from one cluster at once, and then one in
	// freshEvery: a cluster says itself which pods it has, each stays on record for a
	// day, and the store is that of the whole mesh.
	freshBurst = 2000
	freshEvery = 5 * time.Second
	// expectedBurst of questions, and then one in expectedEvery, are asked about each
	// pod that is on record when others of its address were not let in.
	expectedBurst = 3
	expectedEvery = time.Minute
)

// podLimits bounds what pods have done, beside what they share with all strangers.
type podLimits struct {
	fresh    *ratelimit.Limiter[mesh.KubeID]
	expected *ratelimit.Limiter[mesh.EntryID]
}

func newPodLimits() podLimits {
	return podLimits{
		fresh:    ratelimit.New[mesh.KubeID](rate.Every(freshEvery), freshBurst),
		expected: ratelimit.New[mesh.EntryID](rate.Every(expectedEvery), expectedBurst),
	}
}

// errFlood: a cluster has made more entries than any has nodes for.
var errFlood = mesh.WithHint(fmt.Errorf("mgmt: enroll: too many new pods of this cluster came: %w", mesh.ErrUnavailable),
	"it is tried again; if there are not that many, somebody else makes pods there: meshctl admin kube remove --abandon keeps them out")

func (p *pods) flooded(ctx context.Context, id mesh.KubeID) {
	p.suspect.tell(ctx, netip.Addr{}, mesh.Event{
		Type: mesh.EventTokenGuess, Severity: mesh.Warning, Object: "kube/" + string(id),
		Cause:  "more new pods of this cluster came than are let in at a time",
		Advice: "if there are not that many, somebody else makes pods there: meshctl admin kube remove --abandon keeps them out",
	})
}

// isExpected says whether somebody says to be a pod that is on record. Pods share an
// address with whatever else runs in their cluster, and that must not be able to keep
// them from renewing by showing nonsense; who knows a pod's UID can, for that pod.
func (p *pods) isExpected(ctx context.Context, proof *controlpb.PodProof) bool {
	cluster, err := mesh.ParseKubeID(proof.GetCluster())
	uid := review.Claimed(mesh.Secret(proof.GetToken()))
	if err != nil || uid == "" {
		return false
	}
	id := mesh.PodEntryID(cluster, uid)
	item, err := p.store.Entries.Get(ctx, id)
	return err == nil && !item.Value.Revoked && p.limits.expected.Allow(id, p.now())
}
