package dev

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Client is a plain HTTPS-proxy client of one device: what a browser or curl
// would be, through a given entry.
func Client(link admin.DeviceLink, entry string) (*http.Client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(link.CA)) {
		return nil, fmt.Errorf("dev: client: the link has no usable CA: %w", mesh.ErrInvalid)
	}
	_, port, err := net.SplitHostPort(entry)
	if err != nil {
		return nil, fmt.Errorf("dev: client: entry %q: %w", entry, err)
	}
	proxy := &url.URL{Scheme: "https", Host: net.JoinHostPort(string(link.ServerName), port), User: url.UserPassword(link.User, link.Secret)}
	var dialer net.Dialer
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			Proxy:             http.ProxyURL(proxy),
			TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, entry)
			},
		},
	}, nil
}

// Fetch gets the page and checks that it is the origin's.
func Fetch(ctx context.Context, c *http.Client, page string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return fmt.Errorf("dev: fetch: %w", err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return fmt.Errorf("dev: fetch: %w", redactURL(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("dev: fetch: %w", err)
	}
	return checkPage(resp.Status, string(body))
}

func checkPage(status, body string) error {
	if body != Page {
		return fmt.Errorf("dev: fetch: got %q (%s), want the demo page", mesh.Quotable(body), status)
	}
	return nil
}

// redactURL keeps the cause of a url.Error and drops its URL.
func redactURL(err error) error {
	if u, ok := err.(*url.Error); ok {
		return u.Err
	}
	return err
}

// Curl fetches the page with the curl of this machine. The device's secret goes
// to it on standard input, since anybody may read a process's arguments.
func Curl(ctx context.Context, curl string, link admin.DeviceLink, caFile, entry, page string) error {
	host, port, err := net.SplitHostPort(entry)
	if err != nil {
		return fmt.Errorf("dev: curl: entry %q: %w", entry, err)
	}
	config := strings.Join([]string{
		"silent", "show-error", "max-time = 10",
		fmt.Sprintf("url = %q", page),
		fmt.Sprintf("proxy = \"https://%s:%s\"", link.ServerName, port),
		fmt.Sprintf("proxy-cacert = %q", caFile),
		fmt.Sprintf("proxy-user = \"%s:%s\"", link.User, link.Secret),
		fmt.Sprintf("resolve = \"%s:%s:%s\"", link.ServerName, port, host),
	}, "\n") + "\n"
	cmd := exec.CommandContext(ctx, curl, "--disable", "--config", "-")
	cmd.Stdin = strings.NewReader(config)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("dev: curl: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	return checkPage("curl", out.String())
}
