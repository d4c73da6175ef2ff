package ca

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"github.com/smallstep/certificates/authority"
	"github.com/smallstep/certificates/authority/config"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Records is where issued certificates are kept; *store.Store satisfies it.
type Records interface {
	// PutCert adds a record.
	PutCert(ctx context.Context, r mesh.CertRecord) error
	// GetCert returns ErrNotFound for a serial that is not on record.
	GetCert(ctx context.Context, serial string) (mesh.CertRecord, error)
	// IsRevoked says whether a revocation covers the certificate.
	IsRevoked(ctx context.Context, node, serial string, issued time.Time) (bool, error)
	// UseOnce says whether key is used for the first time.
	UseOnce(ctx context.Context, key string) (first bool, err error)
}

// Config is what an Authority is made of. All but Log is needed.
type Config struct {
	Mesh         mesh.ID
	Server       mesh.ServerID // whose intermediate this is
	Root         *x509.Certificate
	Intermediate *x509.Certificate
	Key          crypto.Signer // of Intermediate
	Records      Records
	Log          *slog.Logger // nil discards
}

// Authority issues with one server's intermediate. It is safe for concurrent
// use.
type Authority struct {
	cfg  Config
	step *authority.Authority
	db   *recordDB
	now  func() time.Time
}

// New checks that the parts belong together and returns the authority. It
// returns ErrInvalid when they do not.
func New(cfg Config) (*Authority, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	db := &recordDB{records: cfg.Records}
	// No provisioner of any kind: nothing but Issue below can make it sign.
	step, err := authority.NewEmbedded(
		authority.WithConfig(&config.Config{AuthorityConfig: &config.AuthConfig{}}),
		authority.WithX509RootCerts(cfg.Root),
		authority.WithX509Signer(cfg.Intermediate, cfg.Key),
		authority.WithDatabase(db),
		authority.WithQuietInit(),
	)
	if err != nil {
		return nil, fmt.Errorf("ca: start authority: %v: %w", err, mesh.ErrInvalid)
	}
	return &Authority{cfg: cfg, step: step, db: db, now: time.Now}, nil
}

func (c Config) check() error {
	bad := func(why string) error { return fmt.Errorf("ca: start authority: %s: %w", why, mesh.ErrInvalid) }
	m, err := meshOf(c.Root)
	switch {
	case err != nil:
		return err
	case m != c.Mesh:
		return bad("the root is of another mesh")
	case c.Intermediate.CheckSignatureFrom(c.Root) != nil:
		return bad("the intermediate is not signed by the root")
	case !sameKey(c.Key.Public(), c.Intermediate.PublicKey):
		return bad("the key is not the intermediate's")
	case c.Records == nil:
		return bad("no records")
	}
	_, err = mesh.ParseServerID(string(c.Server))
	return err
}
