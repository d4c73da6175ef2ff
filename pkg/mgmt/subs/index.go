package subs

import (
	"context"
	"crypto/subtle"
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// indexGap is how long many changes in a row wait for each other.
	indexGap = 100 * time.Millisecond
	// indexShare bounds what the index takes of a processor, to one part of so
	// many: with a hundred thousand devices it takes a tenth of a second to make.
	indexShare = 10
)

// index finds devices by the secret of their link, of which it holds hashes only,
// and by their member.
type index struct {
	state State
	now   atomic.Pointer[indexed]
}

type indexed struct {
	byHash   map[string]mesh.DeviceID
	byMember map[mesh.MemberID][]mesh.DeviceID
}

// run follows the devices until ctx ends.
func (x *index) run(ctx context.Context) error {
	for {
		changed := x.state.DevicesChanged()
		began := time.Now()
		x.rebuild()
		took := time.Since(began)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		pause(ctx, max(indexGap, indexShare*took))
	}
}

func (x *index) rebuild() {
	devices := x.state.Devices()
	next := &indexed{byHash: make(map[string]mesh.DeviceID, len(devices)), byMember: map[mesh.MemberID][]mesh.DeviceID{}}
	for id, d := range devices {
		if d.Subscription.Hash != "" && d.State != mesh.DeviceRevoked {
			next.byHash[d.Subscription.Hash] = id
		}
		next.byMember[d.Member] = append(next.byMember[d.Member], id)
	}
	x.now.Store(next)
}

// find returns the device whose link has that secret, unless it is gone for good.
// The index may be a moment old: what counts is the device as it is now.
func (x *index) find(secret mesh.Secret) (mesh.Device, bool) {
	hash := mesh.SubscriptionHash(secret)
	id, ok := x.now.Load().byHash[hash]
	d, known := x.state.Device(id)
	m, _ := x.state.Member(d.Member)
	same := subtle.ConstantTimeCompare([]byte(hash), []byte(d.Subscription.Hash)) == 1
	gone := mesh.DeviceStanding(d, m, mesh.Traffic{}, time.Time{}) == mesh.StandingGone
	return d, ok && known && same && !gone
}

func (x *index) devicesOf(m mesh.MemberID) []mesh.DeviceID { return x.now.Load().byMember[m] }

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
