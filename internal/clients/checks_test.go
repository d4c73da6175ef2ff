//go:build clients

package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bulk is what is moved each way.
const bulk = 100_000_000

// bulkLimit bounds one way of it.
const bulkLimit = 5 * time.Minute

// fetch gets a page; any answer but 200 is an error.
func fetch(ctx context.Context, c *http.Client, url string) (string, error) {
	return exchange(ctx, c, http.MethodGet, url, nil, 0)
}

func exchange(ctx context.Context, c *http.Client, method, url string, body io.Reader, length int64) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return "", err
	}
	if req.ContentLength = length; body != nil {
		req.Header.Set("Expect", "100-continue") // see socks.http
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", resp.Status, text)
	}
	return string(text), err
}

// pages fetches the origin's page by addresses of both families and by names.
func (s socks) pages(ctx context.Context) error {
	var errs []error
	for _, host := range []string{"127.0.0.1", "::1", originName, originIDN} {
		errs = append(errs, s.pageOf(ctx, host))
	}
	return errors.Join(errs...)
}

// byName is the page by a name that only a core can resolve.
func (s socks) byName(ctx context.Context) error { return s.pageOf(ctx, originName) }

func (s socks) pageOf(ctx context.Context, host string) error {
	got, err := fetch(ctx, s.http(patience), "http://"+run.origin.at(host)+"/page")
	if err == nil && got != page {
		err = fmt.Errorf("got %q", got)
	}
	if err != nil {
		return fmt.Errorf("page of %s: %w", host, err)
	}
	return nil
}

// spelled fetches the page by the international name as people spell it, which
// only the newest sing-box passes on; others refuse it themselves.
func (s socks) spelled(ctx context.Context) error {
	c, err := s.connect(ctx, originIDN, run.origin.port)
	if err != nil {
		return fmt.Errorf("page of %s as it is spelled: %w", originIDN, err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /page HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	answer, err := io.ReadAll(c)
	if !strings.HasSuffix(string(answer), page) {
		return fmt.Errorf("page of %s as it is spelled: got %q, %v", originIDN, answer, err)
	}
	return nil
}

// dns asks over UDP, several times over one association, as a phone does. A
// question may be lost, and is then asked again.
func (s socks) dns(ctx context.Context) error {
	control, relay, err := s.associate(ctx)
	if err != nil {
		return fmt.Errorf("UDP: %w", err)
	}
	defer control.Close()
	defer relay.Close()
	to := netip.AddrPortFrom(loopback, run.origin.port)
	for id := range uint16(5) {
		q := dnsQuestion(id)
		got, from, err := askUDP(relay, to, q, 5*time.Second)
		if err != nil {
			got, from, err = askUDP(relay, to, q, 5*time.Second)
		}
		if err != nil {
			return fmt.Errorf("DNS over UDP: %w", err)
		}
		if err := checkDNS(q, got); err != nil {
			return err
		}
		if from != to {
			return fmt.Errorf("DNS over UDP came from %v", from)
		}
	}
	return nil
}

// download moves bulk from the origin, and upload to it.
func (s socks) download(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, run.origin.url("/bytes?n="+strconv.Itoa(bulk)), nil)
	if err != nil {
		return err
	}
	resp, err := s.http(bulkLimit).Do(req)
	if err != nil {
		return fmt.Errorf("download: %w", err)
	}
	defer resp.Body.Close()
	got, err := sum(resp.Body)
	return sameSum("download", got, err)
}

func (s socks) upload(ctx context.Context) error {
	got, err := exchange(ctx, s.http(bulkLimit), http.MethodPost, run.origin.url("/sum"), noise(bulk), bulk)
	return sameSum("upload", got, err)
}

func sameSum(what, got string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if want, err := sum(noise(bulk)); err != nil || got != want {
		return fmt.Errorf("%s: the checksum is %s, want %s, %v", what, got, want, err)
	}
	return nil
}

// together runs checks at the same time.
func together(t *testing.T, checks ...func(context.Context) error) {
	t.Helper()
	results := make(chan error, len(checks))
	for _, c := range checks {
		go func() { results <- c(t.Context()) }()
	}
	for range checks {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}
