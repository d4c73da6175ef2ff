package subs

import (
	"crypto/tls"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// tlsConfig shows the certificate of the service to clients that ask for its
// name, and to nobody else.
func (s *Service) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if n, err := mesh.ParseServerName(h.ServerName); err != nil || n != s.Name() {
				return nil, nil // crypto/tls answers with unrecognized_name
			}
			return s.Certificate(), nil
		},
		// Servers share no ticket keys: what one gave, the next does not know.
		SessionTicketsDisabled: true,
	}
}
