package mgmt

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// settledAfter is how long after a certificate was issued its holder counts as
// using it without having said so: a node whose answer was lost asks again
// within an hour and a half, and an administrator does not say.
const settledAfter = 2 * time.Hour

// retire revokes the intermediates of servers that were removed: whoever has the
// disk of such a server can issue with it. It waits until no node lives on a
// certificate of that intermediate, and says whom it waits for.
func (k *keeper) retire(ctx context.Context) error {
	servers, _, err := k.store.Servers.List(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(servers, func(_ mesh.ServerID, s mesh.Server) bool { return s.State != mesh.ServerRemoved })
	if len(servers) == 0 {
		return nil
	}
	revs, _, err := k.store.Revocations.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(servers)) {
		errs = append(errs, k.retireOne(ctx, servers[id], revs))
	}
	return errors.Join(errs...)
}

func (k *keeper) retireOne(ctx context.Context, s mesh.Server, revs map[string]mesh.SignedRevocation) error {
	cert, err := k.intermediate(ctx, s.ID)
	if err != nil || cert == nil || k.now().After(cert.NotAfter) || covered(revs, "", cert.SerialNumber.String(), time.Time{}) {
		return err
	}
	certs, _, err := k.store.Certs.List(ctx)
	if err != nil {
		return err
	}
	status, _, err := k.store.Status.List(ctx)
	if err != nil {
		return err
	}
	if nodes, until := dependents(certs, revs, status, s.ID, k.now()); len(nodes) > 0 {
		return k.tell(ctx, "retiring "+string(s.ID), mesh.Event{
			Type: mesh.EventServerRemoved, Severity: mesh.Warning, Object: "server/" + string(s.ID),
			Cause: fmt.Sprintf("the intermediate of the removed server %q is still believed: %d nodes live on certificates it issued: %s", s.Name, len(nodes), strings.Join(nodes[:min(len(nodes), 20)], ", ")),
			Advice: "nodes that are connected renew with another server within a minute, administrators at their next command; all certificates of it end by " +
				until.UTC().Format(time.RFC3339) + ", and then it is revoked; if it was stolen, revoke now whoever stays away and let them join again",
		})
	}
	return k.revokeIssuer(ctx, s, cert)
}

// intermediate is nil for a server that never had one.
func (k *keeper) intermediate(ctx context.Context, id mesh.ServerID) (*x509.Certificate, error) {
	b, err := k.store.CA.Get(ctx, blobIssuer(id))
	if errors.Is(err, mesh.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ca.ParseCert(b.Value.Data)
}

func (k *keeper) revokeIssuer(ctx context.Context, s mesh.Server, cert *x509.Certificate) error {
	const actor = "system:keeper"
	now := k.now().UTC()
	signed, err := k.sign(mesh.Revocation{
		ID: store.NewTimeID(now), Serial: cert.SerialNumber.String(), Reason: "intermediate of a removed server", At: now, By: actor, Until: cert.NotAfter,
	})
	if err != nil {
		return err
	}
	_, err = k.store.Change(ctx, store.By{Actor: actor}, "server.retire", func(tx *store.Tx) error {
		if err := store.Create(tx, k.store.Revocations, signed.Record.ID, signed); err != nil {
			return err
		}
		return tx.Event(mesh.Event{
			Type: mesh.EventServerRemoved, Severity: mesh.Info, Object: "server/" + string(s.ID),
			Cause: fmt.Sprintf("the intermediate of the removed server %q is revoked", s.Name),
		})
	})
	return err
}

// dependents are the nodes that would be cut off without the issuer, and when
// the last of their certificates ends. A node that says it holds a certificate
// of another issuer is believed at once: it harms nobody else if it lies.
func dependents(certs map[string]mesh.CertRecord, revs map[string]mesh.SignedRevocation, status map[string]mesh.NodeStatus, issuer mesh.ServerID, now time.Time) (nodes []string, until time.Time) {
	last := lastOf(certs)
	for _, c := range certs {
		newest, held := last[c.Node], certs[status[c.Node].Certificate]
		moved := newest.Issuer != string(issuer) && now.Sub(newest.Issued) > settledAfter ||
			held.Node == c.Node && held.Issuer != string(issuer) ||
			c.Node == string(mesh.RoleMgmt)+"/"+newest.Issuer // a server that made its own is using it
		if c.Issuer != string(issuer) || now.After(c.NotAfter) || moved || covered(revs, c.Node, c.Serial, c.Issued) {
			continue
		}
		nodes = append(nodes, c.Node)
		if c.NotAfter.After(until) {
			until = c.NotAfter
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), until
}

// covered says whether a revocation refuses the certificate already.
func covered(revs map[string]mesh.SignedRevocation, node, serial string, issued time.Time) bool {
	for _, r := range revs {
		if r.Record.Covers(node, serial, issued) {
			return true
		}
	}
	return false
}
