package kube

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Bounds of a connection's parts, in bytes.
const (
	maxServer     = 2000
	maxCA         = 256 << 10
	maxCredential = 64 << 10
)

// Check checks the form of everything, the namespace aside, and says when the
// credential ends; the zero time when it does not say that itself. It returns
// ErrInvalid with every fault, and shows nothing of the credential.
func (a API) Check() (ends time.Time, err error) {
	ends, err = credentialEnds(a.Auth, a.Credential.Reveal())
	return ends, errors.Join(checkServer(a.Server), checkServerName(a.ServerName), checkCA(a.CA), err)
}

func fault(format string, args ...any) error {
	return fmt.Errorf("kube: "+format+": %w", append(args, mesh.ErrInvalid)...)
}

func checkServer(s string) error {
	u, err := url.Parse(s)
	if err != nil || len(s) > maxServer || u.Scheme != "https" || u.Hostname() == "" {
		return fault("server: want a URL such as https://kube.example.net:6443")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fault("server: want a URL without a user, a query and a fragment")
	}
	return nil
}

func checkServerName(s string) error {
	if s == "" || net.ParseIP(s) != nil {
		return nil
	}
	if len(s) > 253 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") != "" {
		return fault("server name %q: want a DNS name", mesh.Quotable(s))
	}
	return nil
}

func checkCA(text string) error {
	if text == "" {
		return nil
	}
	rest := []byte(text)
	if len(rest) > maxCA {
		return fault("certificate authority of %d bytes: want at most %d", len(rest), maxCA)
	}
	for n := 0; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if n == 0 {
				return fault("certificate authority: want certificates as PEM")
			}
			return nil
		}
		if block.Type != "CERTIFICATE" {
			return fault("certificate authority: want certificates alone, not %q", mesh.Quotable(block.Type))
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fault("certificate authority: a certificate is not readable")
		}
	}
}

// credentialEnds checks a credential and reads when it ends.
func credentialEnds(auth mesh.KubeAuth, credential string) (time.Time, error) {
	if credential == "" || len(credential) > maxCredential {
		return time.Time{}, fault("credential: want 1 to %d bytes", maxCredential)
	}
	switch auth {
	case mesh.KubeToken:
		if strings.ContainsFunc(credential, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return time.Time{}, fault("token: want one word of ASCII")
		}
		return tokenEnds(credential), nil
	case mesh.KubeCertificate:
		pair, err := tls.X509KeyPair([]byte(credential), []byte(credential))
		if err != nil {
			return time.Time{}, fault("client certificate: want a certificate and the key that it is for, both PEM and without a passphrase")
		}
		return pair.Leaf.NotAfter, nil
	}
	return time.Time{}, fault("auth %q: want token or certificate", mesh.Quotable(string(auth)))
}

// tokenEnds reads the claim "exp" of a JWT. Whether it is true is the cluster's to
// say; it only tells when to remind somebody.
func tokenEnds(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var c struct {
		Exp int64 `json:"exp"`
	}
	const never = 1 << 37 // seconds: a time in JSON has a year of four digits
	if json.Unmarshal(claims, &c) != nil || c.Exp <= 0 || c.Exp >= never {
		return time.Time{}
	}
	return time.Unix(c.Exp, 0).UTC()
}
