package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxBody bounds one answer that is not a watch.
const maxBody = 16 << 20

// conn is the way to one cluster.
type conn struct {
	dynamic.Interface
	base      *url.URL
	http      *http.Client
	idle      func()
	namespace string
}

// hush keeps the library from writing to standard error on its own: what it has to say
// comes as errors, too.
var hush = sync.OnceFunc(func() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) })

// dial makes the way to the API. It sends nothing.
func dial(api kube.API) (*conn, error) {
	hush()
	base, err := url.Parse(api.Server)
	if err != nil || base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("client: the server is not an https URL")
	}
	trust, err := trustOf(api)
	if err != nil {
		return nil, err
	}
	wire := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:        trust,
		TLSHandshakeTimeout:    5 * time.Second,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 20 * time.Second, PingTimeout: 10 * time.Second},
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        90 * time.Second,
	}
	way := &way{wire: wire, token: tokenOf(api)}
	c := &conn{base: base, idle: wire.CloseIdleConnections, namespace: api.Namespace, http: &http.Client{
		Transport:     way,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}}
	c.Interface, err = dynamic.NewForConfigAndClient(&rest.Config{
		Host: base.String(), UserAgent: "meshctl", QPS: 20, Burst: 60, WarningHandler: rest.NoWarnings{},
	}, c.http)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return c, nil
}

func tokenOf(api kube.API) string {
	if api.Auth == mesh.KubeToken {
		return api.Credential.Reveal()
	}
	return ""
}

func trustOf(api kube.API) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: api.ServerName}
	if api.CA != "" {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM([]byte(api.CA)) {
			return nil, errors.New("client: the CA has no certificate")
		}
	}
	if api.Auth == mesh.KubeCertificate {
		// Both are in one text: each function takes its own blocks.
		pair, err := tls.X509KeyPair([]byte(api.Credential.Reveal()), []byte(api.Credential.Reveal()))
		if err != nil {
			return nil, errors.New("client: the credential is not a certificate and its key")
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// get answers with the body of a path, at most limit bytes of it.
func (c *conn) get(ctx context.Context, path string, query url.Values, limit int64) ([]byte, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, answered(res.StatusCode, body)
	}
	return body, nil
}

// version is what the cluster says of itself.
func (c *conn) version(ctx context.Context) (string, error) {
	body, err := c.get(ctx, "/version", nil, 64<<10)
	if err != nil {
		return "", err
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&v); err != nil {
		return "", errNotKubernetes
	}
	return printable(v.GitVersion, 64), nil
}
