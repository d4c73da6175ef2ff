package mgmt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// recordTime bounds a look-up within a handshake.
const recordTime = 2 * time.Second

// policy is what a door asks of those who connect; the access table then
// decides about each call.
func (r *runtime) policy(d door) identity.Policy {
	p := identity.Policy{Revocations: r.revs, Record: r.onRecord}
	switch d {
	case doorGateway:
		p.Accept = identity.Roles{identity.ProtoGRPC: {mesh.RoleEntry}}.Accept
	case doorAdmin:
		p.Accept = identity.Roles{identity.ProtoGRPC: {mesh.RoleAdmin}}.Accept
	case doorMesh:
		p.Accept = identity.MgmtPort().Accept
		p.Anonymous = true
		p.Grace = r.grace
	case doorSocket: // no TLS there
	}
	return p
}

// onRecord refuses a mgmt or admin certificate that this mesh's records do not
// know: whoever stole an intermediate can make such a thing.
func (r *runtime) onRecord(p identity.Peer) error {
	ctx, cancel := context.WithTimeout(context.Background(), recordTime)
	defer cancel()
	rec, err := r.store.GetCert(ctx, p.Serial)
	switch {
	case errors.Is(err, mesh.ErrNotFound) || err == nil && (rec.Node != p.Node() || rec.KeyHash != p.KeyHash()):
		return fmt.Errorf("mgmt: certificate %s of %s is not on record: %w", p.Serial, p.Node(), mesh.ErrDenied)
	case err != nil:
		return fmt.Errorf("mgmt: look up certificate %s: %w", p.Serial, err)
	}
	return nil
}

// grace is how long an expired certificate may still renew. It is asked in
// every handshake, also of strangers, so it answers from memory.
func (r *runtime) grace() time.Duration {
	cfg, _ := r.config.Get(store.ConfigKey)
	return time.Duration(cfg.RenewGrace)
}
