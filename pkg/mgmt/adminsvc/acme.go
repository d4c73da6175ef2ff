package adminsvc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// acmeGet shows how certificates are ordered, and of which names.
func (s *Service) acmeGet(ctx context.Context, _ admin.None) (admin.ACMEView, error) {
	var v admin.ACMEView
	_, err := s.Store.View(ctx, func(tx *store.Tx) (err error) {
		v = admin.ACMEView{Names: []admin.ACMEName{}, Entries: []string{}}
		set, err := store.Get(tx, s.Store.ACME, store.ACMEKey)
		if ignoreAbsent(err) != nil {
			return err
		}
		if err == nil {
			v.Settings = shownACME(set)
		}
		if v.State, err = store.Get(tx, s.Store.ACMEState, store.ACMEStateKey); ignoreAbsent(err) != nil {
			return err
		}
		return s.acmeNames(tx, &v)
	})
	return v, err
}

func shownACME(a mesh.ACMESettings) *admin.ACMESettingsView {
	return &admin.ACMESettingsView{
		Directory: a.Directory, Roots: a.Roots != "", Contact: a.Contact, External: a.External, Agreed: a.Agreed,
		Provider: a.DNS.Kind, Server: a.DNS.Server, Zone: a.DNS.Zone, KeyName: a.DNS.KeyName, Algorithm: a.DNS.Algorithm,
		Resolvers: a.DNS.Resolvers, AllowMissingCAA: a.AllowMissingCAA,
	}
}

// acmeNames are the names that clients see certificates for.
func (s *Service) acmeNames(tx *store.Tx, v *admin.ACMEView) error {
	conf, err := store.Get(tx, s.Store.Config, store.ConfigKey)
	if ignoreAbsent(err) != nil {
		return err
	}
	if v.Entries, err = s.entryHosts(tx, conf); err != nil {
		return err
	}
	cells, err := store.List(tx, s.Store.Cells)
	if err != nil {
		return err
	}
	have, err := store.List(tx, s.Store.CellCerts)
	if err != nil {
		return err
	}
	if sub := conf.Subscription; sub.Name != "" {
		n := admin.ACMEName{Name: string(sub.Name), What: "subscription", Public: true, Ordered: sub.Certificate == mesh.SubscriptionACME}
		c, err := store.Get(tx, s.Store.SubCert, store.SubCertKey)
		if ignoreAbsent(err) != nil {
			return err
		}
		if n.Ordered && c.Name == sub.Name {
			n.Certs = []admin.CertLine{certLine(c.Order)}
		}
		v.Names = append(v.Names, n)
	}
	for _, id := range slices.Sorted(maps.Keys(cells)) {
		c := cells[id]
		if c.State == mesh.CellRetired {
			continue
		}
		n := admin.ACMEName{Name: "*." + string(c.Suffix), What: "cell " + c.Name, Public: c.Certificate == mesh.CertificatePublic}
		n.Ordered = n.Public && c.Order == mesh.OrderACME
		for _, core := range slices.Sorted(maps.Keys(have)) {
			if have[core].Cell == id {
				n.Certs = append(n.Certs, certLine(have[core].Order))
			}
		}
		v.Names = append(v.Names, n)
	}
	return nil
}

// acmeSet changes how certificates are ordered. Another directory, or a wish for
// it, begins with a new account. What failed before is tried at once.
func (s *Service) acmeSet(ctx context.Context, req admin.ACMESetRequest) (admin.ACMEView, error) {
	defer s.Store.Sealing()()
	err := s.change(ctx, "acme.set", func(tx *store.Tx) error {
		a, err := store.Get(tx, s.Store.ACME, store.ACMEKey)
		absent := errors.Is(err, mesh.ErrNotFound)
		if err != nil && !absent {
			return err
		}
		if err := s.setACME(tx, &a, req); err != nil {
			return err
		}
		if err := s.tryAgain(tx, ""); err != nil {
			return err
		}
		if absent {
			return store.Create(tx, s.Store.ACME, store.ACMEKey, a)
		}
		return store.Update(tx, s.Store.ACME, store.ACMEKey, func(old *mesh.ACMESettings) error { *old = a; return nil })
	})
	if err != nil {
		return admin.ACMEView{}, err
	}
	return s.acmeGet(ctx, admin.None{})
}

func (s *Service) setACME(tx *store.Tx, a *mesh.ACMESettings, req admin.ACMESetRequest) error {
	fresh := a.AccountKey == "" || req.NewAccount || req.Directory != nil && *req.Directory != a.Directory
	set(&a.Directory, req.Directory)
	set(&a.Roots, req.Roots)
	set(&a.Contact, req.Contact)
	set(&a.External, req.External)
	set(&a.AllowMissingCAA, req.AllowMissingCAA)
	set(&a.DNS.Kind, req.Provider)
	set(&a.DNS.Server, req.Server)
	set(&a.DNS.Zone, req.Zone)
	set(&a.DNS.KeyName, req.KeyName)
	set(&a.DNS.Algorithm, req.Algorithm)
	set(&a.DNS.Resolvers, req.Resolvers)
	if a.DNS.Kind == mesh.DNSUpdate && a.DNS.Algorithm == "" {
		a.DNS.Algorithm = mesh.TSIGAlgorithms()[0]
	}
	if err := s.sealTo(&a.DNS.Credential, store.DNSCredentialPlace(), req.Credential); err != nil {
		return err
	}
	if err := s.sealTo(&a.ExternalKey, store.ACMEExternalPlace(), req.ExternalKey); err != nil {
		return err
	}
	if fresh {
		if err := s.newAccount(tx, a, req); err != nil {
			return err
		}
	}
	if a.DNS.Credential == "" {
		return mesh.WithHint(fmt.Errorf("admin: ACME: nothing that may write DNS records is known: %w", mesh.ErrInvalid),
			"give --dns rfc2136, --dns-server, --dns-key and --dns-secret-file; or --dns cloudflare and --dns-secret-file")
	}
	return a.Validate()
}

// sealTo seals a secret that is given; an empty one takes it away.
func (s *Service) sealTo(field *mesh.Sealed, place string, secret *string) (err error) {
	if secret == nil {
		return nil
	}
	if *secret == "" {
		*field = ""
		return nil
	}
	if len(*secret) > maxCredential || strings.ContainsFunc(*secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("admin: ACME: a secret: want one word of printable ASCII: %w", mesh.ErrInvalid)
	}
	*field, err = s.Store.Seal(place, mesh.Secret(*secret))
	return err
}

// newAccount makes the key of an account, and forgets what was known of the last.
func (s *Service) newAccount(tx *store.Tx, a *mesh.ACMESettings, req admin.ACMESetRequest) error {
	if !req.Agree {
		return mesh.WithHint(fmt.Errorf("admin: ACME: a new account needs your agreement to the terms of the authority: %w", mesh.ErrInvalid),
			"read them, then give --agree-terms")
	}
	key, err := ca.NewKey()
	if err != nil {
		return err
	}
	text, err := ca.MarshalKey(key)
	if err != nil {
		return err
	}
	if a.AccountKey, err = s.Store.Seal(store.ACMEAccountPlace(), text); err != nil {
		return err
	}
	a.Agreed = s.now()
	return ignoreAbsent(store.Delete(tx, s.Store.ACMEState, store.ACMEStateKey))
}

// acmeOrder has what failed tried again at once.
func (s *Service) acmeOrder(ctx context.Context, req admin.ACMEOrderRequest) (admin.ACMEView, error) {
	err := s.change(ctx, "acme.order", func(tx *store.Tx) error {
		if _, err := store.Get(tx, s.Store.ACME, store.ACMEKey); err != nil {
			if errors.Is(err, mesh.ErrNotFound) {
				return mesh.WithHint(fmt.Errorf("admin: nothing says how certificates are ordered: %w", mesh.ErrConflict), "meshctl admin acme set")
			}
			return err
		}
		var cell mesh.CellID
		if req.Ref != "" {
			c, err := s.publicCell(tx, req.Ref)
			if err != nil {
				return err
			}
			cell = c.ID
		}
		return s.tryAgain(tx, cell)
	})
	if err != nil {
		return admin.ACMEView{}, err
	}
	return s.acmeGet(ctx, admin.None{})
}

// tryAgain lets what waits after a failure go on: of one cell, or with "" all.
func (s *Service) tryAgain(tx *store.Tx, cell mesh.CellID) error {
	all, err := store.List(tx, s.Store.CellCerts)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if c := all[id]; c.Order.Next.IsZero() || cell != "" && c.Cell != cell {
			continue
		}
		if err := store.Update(tx, s.Store.CellCerts, id, func(c *mesh.CellCert) error { c.Order.Next = time.Time{}; return nil }); err != nil {
			return err
		}
	}
	if err := store.Update(tx, s.Store.ACMEState, store.ACMEStateKey, func(st *mesh.ACMEState) error { st.Next = time.Time{}; return nil }); ignoreAbsent(err) != nil {
		return err
	}
	if cell != "" {
		return nil
	}
	return ignoreAbsent(store.Update(tx, s.Store.SubCert, store.SubCertKey, func(c *mesh.SubscriptionCert) error { c.Order.Next = time.Time{}; return nil }))
}

// acmeRemove ends orders and forgets the account's key.
func (s *Service) acmeRemove(ctx context.Context, _ admin.None) (admin.None, error) {
	return admin.None{}, s.change(ctx, "acme.remove", func(tx *store.Tx) error {
		if err := store.Delete(tx, s.Store.ACME, store.ACMEKey); err != nil {
			return err
		}
		return ignoreAbsent(store.Delete(tx, s.Store.ACMEState, store.ACMEStateKey))
	})
}
