package review

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// client speaks to that API and nobody else: no proxy, no redirect, no
// compression, and one connection that is closed at the end.
func client(api kube.API) (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: api.ServerName}
	if api.CA != "" {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM([]byte(api.CA)) {
			return nil, fmt.Errorf("%w: the CA that is on record for it is no certificate", mesh.ErrUnavailable)
		}
	}
	if api.Auth == mesh.KubeCertificate {
		pem := []byte(api.Credential.Reveal())
		pair, err := tls.X509KeyPair(pem, pem)
		if err != nil {
			return nil, fmt.Errorf("%w: the credential that is on record for it is no certificate with a key", mesh.ErrUnavailable)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            new(net.Dialer).DialContext,
			TLSClientConfig:        conf,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxAnswer,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
