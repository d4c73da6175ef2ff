package nodes

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// returnBatch is how many records one transaction takes back.
	returnBatch = 15
	// restorer is who takes back what nodes know, in audit.
	restorer mesh.Actor = "system:restore"
)

// takeBack stores what arrived, and does again what each record was made for.
func (s *Service) takeBack(ctx context.Context, se *session, h *handover) error {
	arrived := h.arrived
	h.arrived = nil
	if len(arrived) == 0 {
		return nil
	}
	live, err := s.liveServers(ctx)
	if err != nil {
		return err
	}
	var recs []mesh.SignedRevocation
	since := s.revokedSince()
	for _, r := range arrived {
		r.Record, err = identity.VerifyRevocation(s.Node.Roots(), r)
		if err != nil { // the node has verified it before it kept it
			s.misbehaved(se.peer, err)
			return err
		}
		why, err := s.unwanted(ctx, r, live, since)
		if err != nil {
			return err
		}
		if why != "" {
			s.Log.Warn("revocation not taken back", "node", se.node, "object", r.Record.ID, "reason", why)
			continue
		}
		recs = append(recs, r)
	}
	for batch := range slices.Chunk(recs, returnBatch) {
		n, err := s.returnAll(ctx, batch)
		if err != nil {
			return err
		}
		h.back += n
	}
	return nil
}

// liveServers are the servers of now by the serials of their intermediates.
func (s *Service) liveServers(ctx context.Context) (map[string]mesh.ServerID, error) {
	if s.Intermediates != nil {
		return s.Intermediates(ctx)
	}
	own, err := x509.ParseCertificate(s.Node.Chain()[1])
	if err != nil {
		return nil, fmt.Errorf("nodes: read own intermediate: %w", err)
	}
	return map[string]mesh.ServerID{own.SerialNumber.String(): s.Server}, nil
}

// unwanted says why a genuine record is not taken back, "" if it is. Who has the
// key of a server that was stolen can sign records, also with a date before the
// theft: by way of a node such a record would reach a mesh that was restored. It
// must not put the servers of now out.
func (s *Service) unwanted(ctx context.Context, r mesh.SignedRevocation, live map[string]mesh.ServerID, since map[string]time.Time) (string, error) {
	rec := r.Record
	signer, err := x509.ParseCertificate(r.Signer)
	if err != nil {
		return "", fmt.Errorf("nodes: read signer: %w: %w", err, mesh.ErrInvalid)
	}
	if !s.isIssuer(signer) {
		return "signed by no server of the mesh", nil
	}
	if from, ok := since[signer.SerialNumber.String()]; ok && !from.After(rec.At) {
		return "signed after its server was revoked", nil
	}
	if time.Now().After(rec.Until) {
		return "over", nil
	}
	server, err := s.serverOf(ctx, rec, live)
	if err != nil {
		return "", err
	}
	if v, found := s.view.servers.Get(server); server != "" && (server == s.Server || found && v.State != mesh.ServerRemoved) {
		return "it would refuse a management server of now", nil
	}
	return "", nil
}

// serverOf is the management server that a record refuses, "" if it is of others.
func (s *Service) serverOf(ctx context.Context, rec mesh.Revocation, live map[string]mesh.ServerID) (mesh.ServerID, error) {
	node := rec.Node
	if rec.Serial != "" {
		if id := live[rec.Serial]; id != "" {
			return id, nil
		}
		if rec.Serial == s.Node.Leaf().SerialNumber.String() {
			return s.Server, nil
		}
		cert, err := s.Store.GetCert(ctx, rec.Serial)
		if err != nil && !errors.Is(err, mesh.ErrNotFound) {
			return "", err
		}
		node = cert.Node
	}
	id, _ := strings.CutPrefix(node, string(mesh.RoleMgmt)+"/")
	if id == node {
		return "", nil
	}
	return mesh.ServerID(id), nil
}

// isIssuer says whether a certificate is named as intermediates of servers are.
func (s *Service) isIssuer(c *x509.Certificate) bool {
	name := c.Subject.CommonName
	id, err := mesh.ParseServerID(name[strings.LastIndexByte(name, ' ')+1:])
	return err == nil && name == mesh.IssuerName(s.Mesh, id)
}

// revokedSince says since when serials are revoked. It is asked once for many
// records, since it looks at all that there are.
func (s *Service) revokedSince() map[string]time.Time {
	out := map[string]time.Time{}
	for _, r := range s.view.revocations.All() {
		if at, ok := out[r.Record.Serial]; r.Record.Serial != "" && (!ok || r.Record.At.Before(at)) {
			out[r.Record.Serial] = r.Record.At
		}
	}
	return out
}

// returnAll makes records part of the state again, with what they stand for, and
// returns how many were not.
func (s *Service) returnAll(ctx context.Context, recs []mesh.SignedRevocation) (added int, err error) {
	_, err = s.Store.Change(ctx, store.By{Actor: restorer}, "revocation.return", func(tx *store.Tx) error {
		added = 0
		for _, r := range recs {
			// A record is not replaced by another under its id.
			switch _, err := store.Get(tx, s.Store.Revocations, r.Record.ID); {
			case err == nil:
				continue
			case !errors.Is(err, mesh.ErrNotFound):
				return err
			}
			if err := store.Create(tx, s.Store.Revocations, r.Record.ID, r); err != nil {
				return err
			}
			if err := s.refuseAgain(tx, r.Record); err != nil {
				return err
			}
			added++
		}
		if added == 0 {
			return errNothing
		}
		return nil
	})
	if errors.Is(err, errNothing) {
		return 0, nil
	}
	return added, err
}

// errNothing leaves a transaction that has nothing to write.
var errNothing = errors.New("nothing to take back")

// refuseAgain brings the object that a record names to where the record left it.
// Routes and tables follow by their loops.
func (s *Service) refuseAgain(tx *store.Tx, r mesh.Revocation) error {
	kind, id, _ := strings.Cut(r.Node, "/")
	var err error
	switch kind + "/" {
	case string(mesh.RoleCore) + "/":
		err = store.Update(tx, s.Store.Cores, mesh.CoreID(id), func(c *mesh.Core) error {
			c.Revoked, c.Banned, c.State, c.Reason = true, c.Banned || !r.MayRejoin, mesh.CoreRevoked, r.Reason
			return nil
		})
		if err == nil {
			err = store.SyncTarget(tx, s.Mesh, mesh.CoreID(id), identity.ProtoRelay)
		}
	case string(mesh.RoleEntry) + "/":
		err = store.Update(tx, s.Store.Entries, mesh.EntryID(id), func(e *mesh.Entry) error {
			e.Revoked, e.Banned = true, e.Banned || !r.MayRejoin
			return nil
		})
	case string(mesh.RoleAdmin) + "/":
		err = store.Update(tx, s.Store.Admins, mesh.AdminID(id), func(a *mesh.Administrator) error {
			a.Revoked, a.Banned = true, a.Banned || !r.MayRejoin
			return nil
		})
	case mesh.ObjectDevice:
		err = store.Update(tx, s.Store.Devices, mesh.DeviceID(id), func(d *mesh.Device) error {
			d.State = mesh.DeviceRevoked
			return nil
		})
	case mesh.ObjectMember:
		err = store.Update(tx, s.Store.Members, mesh.MemberID(id), func(m *mesh.Member) error {
			m.State = mesh.MemberArchived
			return nil
		})
	}
	if errors.Is(err, mesh.ErrNotFound) {
		return nil // made after the backup: it is gone without that
	}
	return err
}
