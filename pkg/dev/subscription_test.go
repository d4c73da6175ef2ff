package dev

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// A client that trusts the authority gets the document as its own program, and
// an error says neither the secret nor the URL.
func TestTheSubscriptionClientTrustsTheAuthorityAlone(t *testing.T) {
	m := &Mesh{Settings: Settings{Dir: t.TempDir()}}
	if err := m.makeCertificate(); err != nil {
		t.Fatal(err)
	}
	addr := serveSubscription(t, m)
	c, err := m.SubscriptionClient(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	base := "https://" + net.JoinHostPort(SubscriptionName, port)
	if got, err := Document(t.Context(), c, base+"/s/known", "program/1"); err != nil || string(got) != "for program/1" {
		t.Errorf("got %q, %v", got, err)
	}
	for name, url := range map[string]string{"another path": base + "/s/hunter2", "another name": "https://localhost:" + port + "/s/hunter2", "no URL": "\x00hunter2"} {
		if _, err := Document(t.Context(), c, url, ""); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func serveSubscription(t *testing.T, m *Mesh) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(m.subscriptionFiles())
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/s/known" {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte("for " + r.UserAgent())) // the client sees it
		}),
	}
	done := make(chan error, 1)
	go func() { done <- s.ServeTLS(ln, "", "") }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func TestTheProxyIsReadFromAConfigurationOfSingBox(t *testing.T) {
	link, entry, err := proxyIn([]byte(`{"outbounds": [
		{"type": "selector", "outbounds": ["a"]},
		{"type": "http", "server": "::1", "server_port": 444, "username": "u", "password": "p", "tls": {"server_name": "x.test", "certificate": "PEM"}}]}`))
	if err != nil || entry != "[::1]:444" || link.ServerName != "x.test" || link.User != "u" || link.Secret != "p" || link.CA != "PEM" {
		t.Errorf("got %+v, %q, %v", link, entry, err)
	}
	if _, _, err := proxyIn([]byte(`{"outbounds": []}`)); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("without one: %v", err)
	}
	if _, _, err := proxyIn([]byte("vless://")); err == nil {
		t.Error("links are taken for JSON")
	}
}

func TestTheCertificateNeedsAFolder(t *testing.T) {
	m := &Mesh{Settings: Settings{Dir: filepath.Join(t.TempDir(), "none")}}
	if err := m.makeCertificate(); err == nil {
		t.Error("written into no folder")
	}
	if _, err := m.SubscriptionClient("127.0.0.1:1"); err == nil {
		t.Error("a client without an authority")
	}
}
