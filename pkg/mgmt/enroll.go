package mgmt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/meshctl/meshctl/internal/ratelimit"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// issuer signs certificates; *ca.Authority is one.
type issuer interface {
	Issue(context.Context, ca.Request) (chain [][]byte, rec mesh.CertRecord, err error)
}

// enrollment is the Enrollment service: a join token and a key go in, a first
// certificate comes out. Pods show something else: pods.
//
//	right secret? ─▶ one transaction: token used, object made, event, audit ─▶ sign
//
// A crash or a lost reply between the last two is mended by the same key, which
// may fetch its certificate again while the token lives.
type enrollment struct {
	controlpb.UnimplementedEnrollmentServer

	store   *store.Store
	ca      issuer
	mesh    mesh.ID
	suspect *suspicion
	often   *ratelimit.Limiter[mesh.TokenID] // certificates fetched again
	pods    *pods
	metrics *metrics
	log     *slog.Logger
	now     func() time.Time
}

// A node whose answers are lost asks again and backs off. Whoever fetches more
// often than that fills the store with certificates.
const (
	againEvery = 10 * time.Minute
	againBurst = 20
)

// Enroll implements the service.
func (e *enrollment) Enroll(ctx context.Context, req *controlpb.EnrollRequest) (*controlpb.EnrollResponse, error) {
	c, _ := callerOf(ctx)
	resp, err := e.enroll(ctx, c.remote.Addr(), req)
	outcome := "enrolled"
	if err != nil {
		outcome = "refused"
		e.log.Debug("enrollment refused", "err", err)
	}
	e.metrics.tokens.WithLabelValues(outcome).Inc()
	return resp, outward(e.log, "enroll", err)
}

func (e *enrollment) enroll(ctx context.Context, from netip.Addr, req *controlpb.EnrollRequest) (*controlpb.EnrollResponse, error) {
	if req.GetPod() != nil {
		return e.pods.enroll(ctx, from, req)
	}
	if e.suspect.tooMany(from) {
		return nil, rpcstatus.To(mesh.WithHint(fmt.Errorf("mgmt: enroll: too many wrong join tokens from this address: %w", mesh.ErrUnavailable),
			"wait a minute, and check that the token was pasted whole"))
	}
	pub, err := ca.CheckCSR(req.GetCsr())
	if err != nil {
		return nil, err
	}
	t, err := e.token(ctx, from, mesh.TokenID(req.GetTokenId()), mesh.Secret(req.GetSecret()))
	if err != nil {
		return nil, err
	}
	if r := req.GetRole(); r != "" && r != string(t.Role) {
		return nil, mesh.WithHint(fmt.Errorf("mgmt: enroll: the join token is for the role %s, not %s: %w", t.Role, mesh.Quotable(r), mesh.ErrInvalid),
			"the token is not used up; join with it as "+string(t.Role)+", or make another")
	}
	cfg, err := e.store.Config.Get(ctx, store.ConfigKey)
	if err != nil {
		return nil, fmt.Errorf("mgmt: enroll: %w", err)
	}
	n, err := e.admit(ctx, t, newcomer{key: identity.KeyHash(pub), from: from, version: req.GetVersion()})
	if err != nil {
		return nil, err
	}
	if n.again && !e.often.Allow(t.ID, e.now()) {
		return nil, rpcstatus.To(mesh.WithHint(fmt.Errorf("mgmt: enroll %s: it fetched its certificate too often: %w", n.id.Node(), mesh.ErrUnavailable),
			"wait some minutes, or join with a new token"))
	}
	chain, _, err := e.ca.Issue(ctx, ca.Request{
		Identity: n.id,
		CSR:      req.GetCsr(),
		Life:     cfg.Value.CertLife.Of(n.id.Role),
		Token:    t.ID,
	})
	if err != nil {
		return nil, fmt.Errorf("mgmt: enroll %s: %w", n.id.Node(), err)
	}
	e.log.Info("node enrolled", "node", n.id.Node())
	return &controlpb.EnrollResponse{
		Chain:         chain,
		MeshId:        string(e.mesh),
		Node:          n.id.Node(),
		Name:          n.name,
		MgmtAddresses: cfg.Value.MgmtAddresses,
	}, nil
}

// token returns the token's record to whoever has its secret. For everybody
// else an unknown token and a wrong secret are the same.
func (e *enrollment) token(ctx context.Context, from netip.Addr, id mesh.TokenID, secret mesh.Secret) (mesh.Token, error) {
	var t mesh.Token
	if _, err := mesh.ParseTokenID(string(id)); err == nil {
		item, err := e.store.Tokens.Get(ctx, id)
		if err != nil && mesh.Kind(err) != mesh.ErrNotFound {
			return mesh.Token{}, fmt.Errorf("mgmt: enroll: %w", err)
		}
		t = item.Value
	}
	// Compared in any case, so that both ways take the same time.
	if !t.Matches(secret) || t.ID == "" {
		e.suspect.guessed(ctx, from)
		return mesh.Token{}, mesh.WithHint(fmt.Errorf("mgmt: enroll: the join token is not valid: %w", mesh.ErrDenied),
			"ask for a new one: meshctl admin token create")
	}
	return t, nil
}

// errAgain leaves a transaction that has nothing to write.
var errAgain = errors.New("the same key again")

// admit consumes the token and makes the node it is for, in one transaction;
// of several who present it at once exactly one gets through. A key that got
// through before is let through again.
func (e *enrollment) admit(ctx context.Context, t mesh.Token, who newcomer) (admitted, error) {
	id, err := e.newIdentity(t.Role)
	if err != nil {
		return admitted{}, err
	}
	var n admitted
	by := store.By{Actor: mesh.Actor("node:" + id.Node()), Request: newRequestID()}
	_, err = e.store.Change(ctx, by, "node.enroll", func(tx *store.Tx) error {
		now := e.now()
		cur, err := store.Get(tx, e.store.Tokens, t.ID)
		if err != nil {
			return err
		}
		if err := usable(cur, who.key, now); err != nil {
			return err
		}
		if cur.Used != nil {
			if n, err = e.again(tx, cur); err != nil {
				return err
			}
			return errAgain
		}
		n = admitted{id: id}
		if n.name, err = e.create(tx, cur, id, who, now); err != nil {
			return err
		}
		return e.consume(tx, cur, n, who, now)
	})
	switch {
	case err == nil || errors.Is(err, errAgain):
		return n, nil
	case errors.Is(err, errUsed):
		e.suspect.reused(ctx, who.from, t.ID)
	}
	return admitted{}, err
}

// errUsed marks a token that another key has used.
var errUsed = errors.New("already used")

// usable says whether the holder of the secret may use the token now. It may
// be told precisely why not.
func usable(t mesh.Token, key string, now time.Time) error {
	refuse := func(why error, hint string) error {
		return mesh.WithHint(fmt.Errorf("mgmt: enroll: the join token %w: %w", why, mesh.ErrDenied), hint)
	}
	const another = "ask for a new one: meshctl admin token create"
	switch {
	case t.Revoked:
		return refuse(errors.New("was revoked"), another)
	case t.Used != nil && t.Used.KeyHash != key:
		return refuse(fmt.Errorf("was %w by %s at %s", errUsed, t.Used.Node, t.Used.At.UTC().Format(time.RFC3339)),
			"if that was not you, revoke that node; for this one "+another)
	case !now.Before(t.Expires):
		return refuse(fmt.Errorf("expired at %s", t.Expires.UTC().Format(time.RFC3339)), another)
	}
	return nil
}

func (e *enrollment) consume(tx *store.Tx, t mesh.Token, n admitted, who newcomer, now time.Time) error {
	err := store.Update(tx, e.store.Tokens, t.ID, func(t *mesh.Token) error {
		t.Used = &mesh.TokenUse{Node: n.id.Node(), KeyHash: who.key, From: who.from.String(), At: now}
		return nil
	})
	if err != nil {
		return err
	}
	return tx.Event(mesh.Event{
		Type:     joinedEvent(n.id.Role),
		Severity: mesh.Info,
		Object:   n.id.Node(),
		Cause:    fmt.Sprintf("joined as %q with %s from %s", n.name, t.ID, who.from),
	})
}

func joinedEvent(r mesh.Role) mesh.EventType {
	switch r {
	case mesh.RoleCore:
		return mesh.EventCoreJoined
	case mesh.RoleEntry:
		return mesh.EventEntryJoined
	case mesh.RoleMgmt:
		return mesh.EventTokenUsed // it has joined when its etcd has a vote
	case mesh.RoleAdmin:
	}
	return mesh.EventAdminJoined
}
