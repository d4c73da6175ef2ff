package adminsvc

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// crlLife is how long a revocation list may be used by outsiders.
const crlLife = 24 * time.Hour

func (s *Service) certList(ctx context.Context, req admin.CertListRequest) (admin.List[admin.CertView], error) {
	node, err := s.nodeOf(ctx, req.Node)
	if err != nil {
		return admin.List[admin.CertView]{}, err
	}
	show, err := s.certViewer(ctx)
	if err != nil {
		return admin.List[admin.CertView]{}, err
	}
	return list(ctx, req.Page, s.Store.Certs.Page, func(_ string, c mesh.CertRecord) (admin.CertView, bool) {
		return show(c), only(node, c.Node)
	})
}

// certViewer reads the revocations once.
func (s *Service) certViewer(ctx context.Context) (func(mesh.CertRecord) admin.CertView, error) {
	revs, _, err := s.Store.Revocations.List(ctx)
	now := s.now()
	return func(c mesh.CertRecord) admin.CertView {
		_, revoked := revokedAt(c, revs)
		return admin.CertView{CertRecord: c, Revoked: revoked, Expired: now.After(c.NotAfter)}
	}, err
}

// revokedAt is when c was first refused.
func revokedAt(c mesh.CertRecord, revs map[string]mesh.SignedRevocation) (time.Time, bool) {
	var first time.Time
	for _, r := range revs {
		if r.Record.Covers(c.Node, c.Serial, c.Issued) && (first.IsZero() || r.Record.At.Before(first)) {
			first = r.Record.At
		}
	}
	return first, !first.IsZero()
}

// nodeOf turns role/id, an id or the label of a core, entry or administrator
// into role/id; "" stays "".
func (s *Service) nodeOf(ctx context.Context, ref string) (string, error) {
	if ref == "" {
		return "", nil
	}
	if _, _, ok := cutNode(ref); ok {
		return ref, nil
	}
	if mesh.IsID(ref) {
		role, _, _ := strings.Cut(ref, "-")
		return role + "/" + ref, nil
	}
	c, err := s.Store.Cores.Lookup(ctx, ref)
	if err == nil {
		return nodeName(mesh.RoleCore, c.ID), nil
	}
	e, err2 := s.Store.Entries.Lookup(ctx, ref)
	if err2 == nil {
		return nodeName(mesh.RoleEntry, e.ID), nil
	}
	a, err3 := s.Store.Admins.Lookup(ctx, ref)
	if err3 == nil {
		return nodeName(mesh.RoleAdmin, a.ID), nil
	}
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, mesh.ErrNotFound) {
			return "", err
		}
	}
	return "", fmt.Errorf("admin: no core, entry or administrator is called %q: %w", mesh.Quotable(ref), mesh.ErrNotFound)
}

// cutNode splits role/id.
func cutNode(node string) (mesh.Role, string, bool) {
	role, id, ok := strings.Cut(node, "/")
	r, err := mesh.ParseRole(role)
	return r, id, ok && err == nil
}

func (s *Service) certGet(ctx context.Context, req admin.Ref) (admin.CertView, error) {
	if err := checkSerial(req.Ref); err != nil {
		return admin.CertView{}, err
	}
	c, err := s.Store.Certs.Get(ctx, req.Ref)
	if err != nil {
		return admin.CertView{}, err
	}
	show, err := s.certViewer(ctx)
	if err != nil {
		return admin.CertView{}, err
	}
	return show(c.Value), nil
}

func checkSerial(ref string) error {
	if ref == "" || len(ref) > 64 || strings.Trim(ref, "0123456789") != "" {
		return mesh.WithHint(fmt.Errorf("admin: serial %q: want decimal digits: %w", mesh.Quotable(ref), mesh.ErrInvalid),
			"see meshctl admin cert list --node NODE")
	}
	return nil
}

func (s *Service) certRevoke(ctx context.Context, req admin.RevokeRequest) (admin.CertView, error) {
	if err := checkSerial(req.Ref); err != nil {
		return admin.CertView{}, err
	}
	err := s.change(ctx, "cert.revoke", func(tx *store.Tx) error {
		c, err := store.Get(tx, s.Store.Certs, req.Ref)
		if err != nil {
			return err
		}
		if err := s.mayRevoke(ctx, tx, c); err != nil {
			return err
		}
		return s.addRevocation(ctx, tx, mesh.Revocation{Serial: c.Serial, Reason: req.Reason, At: s.now(), Until: c.NotAfter})
	})
	if err != nil {
		return admin.CertView{}, err
	}
	return s.certGet(ctx, admin.Ref{Ref: req.Ref})
}

// mayRevoke refuses what is pointless, what is for owners to decide (an operator
// could get rid of them otherwise), and what would make every node turn away from
// the only management server.
func (s *Service) mayRevoke(ctx context.Context, tx *store.Tx, c mesh.CertRecord) error {
	role, _, _ := cutNode(c.Node)
	node := role == mesh.RoleCore || role == mesh.RoleEntry
	switch {
	case !node && !admin.CallerFrom(ctx).Role.Includes(mesh.AdminOwner):
		return mesh.WithHint(fmt.Errorf("admin: certificate %s is of %s: only an owner may revoke it: %w", c.Serial, c.Node, mesh.ErrDenied), "ask an owner")
	case s.now().After(c.NotAfter):
		return fmt.Errorf("admin: certificate %s ended at %s: %w", c.Serial, c.NotAfter.UTC().Format(time.RFC3339), mesh.ErrConflict)
	case role != mesh.RoleMgmt:
		return nil
	}
	certs, err := store.List(tx, s.Store.Certs)
	if err != nil {
		return err
	}
	for _, other := range certs {
		if other.Node == c.Node && other.Issued.After(c.Issued) {
			return nil // it has been replaced
		}
	}
	return mesh.WithHint(fmt.Errorf("admin: certificate %s is the one management server %s uses: every node would turn away from it: %w", c.Serial, c.Node, mesh.ErrConflict),
		"wait until it has been renewed, then revoke the old one")
}

func (s *Service) certCRL(ctx context.Context, _ admin.None) (admin.CRL, error) {
	certs, _, err := s.Store.Certs.List(ctx)
	if err != nil {
		return admin.CRL{}, err
	}
	revs, _, err := s.Store.Revocations.List(ctx)
	if err != nil {
		return admin.CRL{}, err
	}
	now := s.now()
	var revoked []ca.RevokedCert
	for _, c := range certs {
		if at, ok := revokedAt(c, revs); ok && c.Issuer == string(s.Server) && now.Before(c.NotAfter) {
			revoked = append(revoked, ca.RevokedCert{Serial: c.Serial, At: at})
		}
	}
	slices.SortFunc(revoked, func(a, b ca.RevokedCert) int { return cmp.Compare(a.Serial, b.Serial) })
	// Lists are made on request and by several servers: time alone rises.
	der, err := s.CA.CRL(big.NewInt(now.UnixMicro()), revoked, now, now.Add(crlLife))
	if err != nil {
		return admin.CRL{}, err
	}
	return admin.CRL{Issuer: string(s.Server), PEM: string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))}, nil
}
