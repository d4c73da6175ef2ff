package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// want is one thing to order. Without a name it is the account.
type want struct {
	id, name string
	request  []byte
}

// wants are what is to be ordered now: first the account, and when that is known
// the certificates that are due.
func (s *Service) wants(ctx context.Context, set mesh.ACMESettings) ([]want, error) {
	now := s.now()
	state, err := s.Store.ACMEState.Get(ctx, store.ACMEStateKey)
	if err != nil && !errors.Is(err, mesh.ErrNotFound) {
		return nil, err
	}
	if state.Value.Account == "" || state.Value.Directory != set.Directory {
		if state.Value.Directory == set.Directory && now.Before(state.Value.Next) {
			return nil, nil
		}
		return []want{{id: idAccount}}, nil
	}
	cores, err := s.publicCores(ctx, func(c mesh.Cell) bool { return c.Order == mesh.OrderACME })
	if err != nil {
		return nil, err
	}
	var out []want
	for _, c := range cores {
		if due(c.Order, now) {
			out = append(out, want{string(c.Core), wildcard(c.Suffix), c.Order.Request})
		}
	}
	sub, err := s.wantSubscription(ctx, now)
	if err == nil && sub != nil {
		out = append(out, *sub)
	}
	return out, err
}

// due says whether there is no certificate yet for what was asked for last, and
// it may be ordered now.
func due(o mesh.CertOrder, now time.Time) bool {
	open := len(o.Request) > 0 && (!answered(o) || !now.Before(o.NotAfter))
	return open && !now.Before(o.Next)
}

// publicCores are the certificates of cores that serve a public cell, in the order
// of their ids. They are read from the store: what was written a moment ago would
// be ordered again.
func (s *Service) publicCores(ctx context.Context, ok func(mesh.Cell) bool) ([]mesh.CellCert, error) {
	if len(s.cells.All()) == 0 {
		return nil, nil
	}
	var out []mesh.CellCert
	_, err := s.Store.View(ctx, func(tx *store.Tx) error {
		out = nil
		have, err := store.List(tx, s.Store.CellCerts)
		if err != nil {
			return err
		}
		cells, err := store.List(tx, s.Store.Cells)
		if err != nil {
			return err
		}
		cores, err := store.List(tx, s.Store.Cores)
		if err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(have)) {
			cert := have[id]
			cell, core := cells[cert.Cell], cores[id]
			if core.ID != "" && !core.Revoked && core.Cell == cell.ID && cell.Suffix == cert.Suffix &&
				cell.Certificate == mesh.CertificatePublic && cell.State != mesh.CellRetired && ok(cell) {
				out = append(out, cert)
			}
		}
		return nil
	})
	return out, err
}

// wantSubscription is the certificate of the subscription service when it is to
// be ordered now. Its key is made first, and replaced with each certificate.
func (s *Service) wantSubscription(ctx context.Context, now time.Time) (*want, error) {
	set := s.Settings()
	if set.Certificate != mesh.SubscriptionACME || set.Name == "" {
		return nil, nil
	}
	item, err := s.Store.SubCert.Get(ctx, store.SubCertKey)
	if err != nil && !errors.Is(err, mesh.ErrNotFound) {
		return nil, err
	}
	c := item.Value
	if c.Name != set.Name || len(c.Order.Request) == 0 || answered(c.Order) && !now.Before(renewAt(c.Order)) {
		if now.Before(c.Order.Next) && c.Name == set.Name {
			return nil, nil
		}
		if c, err = s.newSubscription(ctx, set.Name, now); err != nil {
			return nil, err
		}
	}
	if !due(c.Order, now) {
		return nil, nil
	}
	return &want{idSubscription, string(c.Name), c.Order.Request}, nil
}

// renewAt is two thirds into the life of a certificate.
func renewAt(o mesh.CertOrder) time.Time { return o.Issued.Add(o.NotAfter.Sub(o.Issued) * 2 / 3) }

// newSubscription makes a key and a request for name, and stores both.
func (s *Service) newSubscription(ctx context.Context, name mesh.ServerName, now time.Time) (mesh.SubscriptionCert, error) {
	defer s.Store.Sealing()()
	var out mesh.SubscriptionCert
	key, csr, err := newRequest(string(name))
	if err != nil {
		return out, err
	}
	sealed, err := s.Store.Seal(store.SubCertKeyPlace(), key)
	if err != nil {
		return out, err
	}
	_, err = s.Store.Update(ctx, func(tx *store.Tx) error {
		have, err := store.Get(tx, s.Store.SubCert, store.SubCertKey)
		absent := errors.Is(err, mesh.ErrNotFound)
		if err != nil && !absent {
			return err
		}
		out = have
		if out.Name != name {
			out.Order.Failures, out.Order.Reason, out.Order.Next = 0, "", time.Time{}
		}
		out.Name, out.Pending, out.Order = name, sealed, asked(out.Order, csr, now)
		if absent {
			return store.Create(tx, s.Store.SubCert, store.SubCertKey, out)
		}
		return store.Update(tx, s.Store.SubCert, store.SubCertKey, func(c *mesh.SubscriptionCert) error { *c = out; return nil })
	})
	return out, err
}

func newRequest(name string) (keyPEM mesh.Secret, csr []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", nil, fmt.Errorf("certs: make key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", nil, fmt.Errorf("certs: make key: %w", err)
	}
	if csr, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{name}}, key); err != nil {
		return "", nil, fmt.Errorf("certs: make request: %w", err)
	}
	return mesh.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), csr, nil
}
