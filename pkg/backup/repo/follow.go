package repo

import "context"

// Known is what a remote's branch held when it was last seen, "" when that is
// not known.
func (r *Repo) Known(remote string) ID { return r.ref(remoteRef(remote)) }

// Contains says whether old is in the history of id, or is id.
func (r *Repo) Contains(ctx context.Context, id, old ID) (bool, error) {
	return r.isAncestor(ctx, old, id)
}

// Follow makes a commit that is here the head. Commits that only the old head
// led to are no longer found by anybody.
func (r *Repo) Follow(ctx context.Context, id ID) error { return r.setHead(ctx, id) }
