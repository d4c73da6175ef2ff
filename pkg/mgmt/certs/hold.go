package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const maxFile = 256 << 10

// readFiles takes the certificate from the files when they have changed. What
// was there before is shown until they hold a pair that fits: whoever replaces
// two files does not do it at the same moment.
func (s *Service) readFiles() {
	if s.Files == (Files{}) {
		return
	}
	chain, err := readSmall(s.Files.Cert, 0)
	key, err2 := readSmall(s.Files.Key, 0o007) // a group of those who may is usual
	if err = errors.Join(err, err2); err != nil {
		s.hold(&s.files, "", nil, err)
		return
	}
	sum := sha256.Sum256(append(chain, key...))
	of := hex.EncodeToString(sum[:])
	if h := s.files.Load(); h != nil && h.of == of && h.problem == "" {
		return
	}
	cert, err := tls.X509KeyPair(chain, key)
	s.hold(&s.files, of, &cert, err)
}

// readShared takes the certificate that was ordered.
func (s *Service) readShared() {
	item, ok := s.sub.Item(store.SubCertKey)
	if !ok || len(item.Value.Order.Chain) == 0 {
		return
	}
	of := strconv.FormatInt(int64(item.Rev), 10)
	if h := s.shared.Load(); h != nil && h.of == of && h.problem == "" {
		return
	}
	cert, err := s.openShared(item.Value)
	s.hold(&s.shared, of, cert, err)
}

func (s *Service) openShared(c mesh.SubscriptionCert) (*tls.Certificate, error) {
	key, err := s.Store.Unseal(store.SubCertKeyPlace(), c.Key)
	if err != nil {
		return nil, err
	}
	var chain []byte
	for _, der := range c.Order.Chain {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	cert, err := tls.X509KeyPair(chain, []byte(key.Reveal()))
	return &cert, err
}

// hold takes a certificate, or keeps the one before it and says why.
func (s *Service) hold(at interface {
	Load() *held
	Store(*held)
}, of string, cert *tls.Certificate, err error) {
	last := at.Load()
	if last == nil {
		last = &held{}
	}
	if err != nil {
		why := mesh.Plain(err)
		if last.problem != why {
			s.Log.Warn("subscription certificate not taken", "err", err)
		}
		at.Store(&held{cert: last.cert, of: last.of, problem: why})
		return
	}
	if last.cert == nil || string(last.cert.Certificate[0]) != string(cert.Certificate[0]) {
		s.Log.Info("subscription certificate taken", "ends", cert.Leaf.NotAfter)
	}
	at.Store(&held{cert: cert, of: of})
}

// readSmall reads a file that has none of the permissions in deny.
func readSmall(path string, deny os.FileMode) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	if info.Mode().Perm()&deny != 0 {
		return nil, fmt.Errorf("certs: %s may be read by everybody (mode %04o; chmod 600, or 640): %w", path, info.Mode().Perm(), mesh.ErrDenied)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s: more than %d bytes: %w", path, maxFile, mesh.ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	return b, nil
}
