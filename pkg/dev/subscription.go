package dev

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// SubscriptionName is the host name of the subscription service. Only clients
// that are told so find it: at the entries.
const SubscriptionName = "sub.mesh.test"

// maxDocument is more than a subscription has.
const maxDocument = 1 << 20

// nameSubscription turns the service on.
func (m *Mesh) nameSubscription(ctx context.Context) error {
	_, err := admin.ConfigSet.Call(ctx, m.Admin, admin.ConfigSetRequest{
		Patch: fmt.Appendf(nil, `{"subscription": {"name": %q, "title": "meshctl dev"}}`, SubscriptionName),
	})
	return err
}

// subscribe makes the device's link.
func (m *Mesh) subscribe(ctx context.Context) error {
	link, err := admin.DeviceSubscribe.Call(ctx, m.Admin, admin.DeviceSubscribeRequest{Ref: string(m.Device.ID)})
	if err != nil {
		return err
	}
	m.Subscription = mesh.Secret(link.URL)
	return until(ctx, func(ctx context.Context) error {
		_, err := m.Subscribed(ctx, "")
		return err
	})
}

// Subscribed fetches the device's subscription, as the program with that
// User-Agent would.
func (m *Mesh) Subscribed(ctx context.Context, agent string) ([]byte, error) {
	c, err := m.SubscriptionClient(m.EntryAddresses[0])
	if err != nil {
		return nil, err
	}
	defer c.CloseIdleConnections()
	return Document(ctx, c, m.Subscription.Reveal(), agent)
}

// SubscriptionClient is an HTTP client for the subscription service that finds
// it at an entry.
func (m *Mesh) SubscriptionClient(entry string) (*http.Client, error) {
	ca, err := os.ReadFile(m.SubscriptionCAFile())
	if err != nil {
		return nil, fmt.Errorf("dev: subscription: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("dev: subscription: %s has no certificate: %w", m.SubscriptionCAFile(), mesh.ErrInvalid)
	}
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, entry)
			},
		},
	}, nil
}

// Document fetches what the subscription service serves to a User-Agent.
func Document(ctx context.Context, c *http.Client, url, agent string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, errors.New("dev: subscription: the link is no URL")
	}
	req.Header.Set("User-Agent", agent)
	resp, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("dev: subscription: %w", redactURL(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return nil, fmt.Errorf("dev: subscription: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("dev: subscription: got %s %q: %w", resp.Status, mesh.Quotable(strings.TrimSpace(string(body))), mesh.ErrUnavailable)
	}
	return body, nil
}

// SubscriptionCAFile is the authority that signed the certificate of the
// subscription service, for clients.
func (m *Mesh) SubscriptionCAFile() string { return filepath.Join(m.Dir, "sub-ca.pem") }

func (m *Mesh) subscriptionFiles() (cert, key string) {
	return filepath.Join(m.Dir, "sub.pem"), filepath.Join(m.Dir, "sub-key.pem")
}

// fetchAsSubscribed fetches the page with nothing but what the subscription
// says: as sing-box would, by its HTTP proxy.
func (m *Mesh) fetchAsSubscribed(ctx context.Context) error {
	doc, err := m.Subscribed(ctx, "sing-box/1.12")
	if err != nil {
		return err
	}
	link, entry, err := proxyIn(doc)
	if err != nil {
		return err
	}
	c, err := Client(link, entry)
	if err != nil {
		return err
	}
	return Fetch(ctx, c, m.Origin.URL())
}

// proxyIn reads the first HTTP proxy in a configuration of sing-box, and the
// host:port of its entry.
func proxyIn(doc []byte) (link admin.DeviceLink, entry string, err error) {
	var config struct {
		Outbounds []struct {
			Type, Server       string
			Port               uint16 `json:"server_port"`
			Username, Password string
			TLS                struct {
				Name        mesh.ServerName `json:"server_name"`
				Certificate string
			}
		}
	}
	if err := json.Unmarshal(doc, &config); err != nil {
		return link, "", fmt.Errorf("dev: subscription: %w", err)
	}
	for _, o := range config.Outbounds {
		if o.Type == string(mesh.ProtocolHTTP) {
			entry = net.JoinHostPort(o.Server, strconv.Itoa(int(o.Port)))
			return admin.DeviceLink{ServerName: o.TLS.Name, User: o.Username, Secret: o.Password, CA: o.TLS.Certificate}, entry, nil
		}
	}
	return link, "", fmt.Errorf("dev: subscription: no HTTP proxy in it: %w", mesh.ErrNotFound)
}
