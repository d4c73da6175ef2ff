package embedded

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/meshctl/meshctl/internal/durable"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Pair is a certificate chain and its key, PEM.
type Pair struct {
	Cert []byte
	Key  mesh.Secret
}

// Material is what the member and this process prove themselves with, all of
// etcd's own CA, PEM.
type Material struct {
	CA     []byte
	Server Pair // ServerName, for the client URL's host
	Peer   Pair // PeerName, for the peer URL's host; to listen and to dial
	Client Pair // ClientName
}

// Each pair is one file, which is replaced in one step: etcd reads it at each
// handshake, and a certificate without its key would fail that one.
const (
	fileCA     = "ca.pem"
	fileServer = "server.pem"
	filePeer   = "peer.pem"
	fileClient = "client.pem"
)

func (m *Member) file(name string) string { return filepath.Join(m.TLSDir, name) }

// Renew writes new certificates; etcd reads them at the next handshake. The CA
// stays until the next start.
func (m *Member) Renew(t Material) error {
	m.mu.Lock()
	m.TLS = t
	m.mu.Unlock()
	if err := m.writeTLS(t); err != nil {
		return fmt.Errorf("embedded: renew: %w", err)
	}
	return nil
}

func (m *Member) writeTLS(t Material) error {
	if len(t.CA) == 0 {
		return fmt.Errorf("certificates: %s is missing: %w", fileCA, mesh.ErrInvalid)
	}
	if err := durable.Write(m.file(fileCA), t.CA); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	for _, f := range []struct {
		name string
		pair Pair
	}{{fileServer, t.Server}, {filePeer, t.Peer}, {fileClient, t.Client}} {
		if len(f.pair.Cert) == 0 || f.pair.Key == "" {
			return fmt.Errorf("certificates: %s is missing: %w", f.name, mesh.ErrInvalid)
		}
		if err := durable.Write(m.file(f.name), slices.Concat(f.pair.Cert, []byte(f.pair.Key.Reveal()))); err != nil {
			return fmt.Errorf("certificates: %w", err)
		}
	}
	return nil
}

// ClientConfig is how this process reaches the member once it is ready.
func (m *Member) ClientConfig() (endpoints []string, conf *tls.Config, err error) {
	e, err := m.running()
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	t := m.TLS
	m.mu.Unlock()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(t.CA) {
		return nil, nil, fmt.Errorf("embedded: the CA is not PEM: %w", mesh.ErrInvalid)
	}
	return []string{"https://" + e.Clients[0].Addr().String()}, &tls.Config{
		MinVersion:           tls.VersionTLS13,
		RootCAs:              pool,
		GetClientCertificate: m.clientCertificate,
	}, nil
}

// clientCertificate takes the newest, since the configuration outlives it.
func (m *Member) clientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	m.mu.Lock()
	c := m.TLS.Client
	m.mu.Unlock()
	pair, err := tls.X509KeyPair(c.Cert, []byte(c.Key.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("embedded: client certificate: %w", err)
	}
	return &pair, nil
}

// marker is written beside Dir when the member was first ready.
type marker struct {
	Cluster string `json:"cluster"`
	Member  string `json:"member"`
}

func (m *Member) markerFile() string { return filepath.Clean(m.Dir) + ".member" }

// prepare makes the folders, and refuses to begin where data was lost.
func (m *Member) prepare() error {
	had, err := m.readMarker()
	if err != nil {
		return err
	}
	m.resumes = had != nil
	if m.resumes {
		logs, err := filepath.Glob(filepath.Join(m.Dir, "member", "wal", "*.wal"))
		if err != nil {
			return err
		}
		if len(logs) == 0 {
			return mesh.WithHint(fmt.Errorf("etcd's data is gone from %s, where member %s has run", m.Dir, had.Member),
				"put the folder back, or restore a backup; with other servers in the mesh replace this one")
		}
	}
	for _, dir := range []string{m.Dir, m.TLSDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			return mesh.WithHint(fmt.Errorf("folder %s: mode %v lets others in: %w", dir, info.Mode().Perm(), mesh.ErrInvalid), "chmod 700 "+dir)
		}
	}
	m.mu.Lock()
	t := m.TLS
	m.mu.Unlock()
	return m.writeTLS(t)
}

func (m *Member) readMarker() (*marker, error) {
	var mk marker
	_, err := durable.Read(m.markerFile(), func(b []byte) error { return json.Unmarshal(b, &mk) })
	if errors.Is(err, mesh.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &mk, err
}

// mark notes which member this folder holds, or checks it.
func (m *Member) mark(e *embed.Etcd) error {
	is := marker{Cluster: e.Server.Cluster().ID().String(), Member: e.Server.MemberID().String()}
	had, err := m.readMarker()
	if err != nil {
		return err
	}
	if had != nil {
		if *had != is {
			return mesh.WithHint(fmt.Errorf("%s holds member %s of cluster %s, but %s of %s has run here",
				m.Dir, is.Member, is.Cluster, had.Member, had.Cluster), "put back the folder that belongs here")
		}
		return nil
	}
	b, err := json.Marshal(is)
	if err != nil {
		return err
	}
	return durable.Write(m.markerFile(), append(b, '\n'))
}
