package core

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// handler decides what each client, and each request inside a client's TLS, gets.
type handler struct {
	devices  *devices
	ways     *atomic.Pointer[ways]
	dialer   *dialer
	limits   Limits
	tunnels  *quota // connections to destinations
	flows    *quota // of datagrams
	linger   time.Duration
	plain    *httputil.ReverseProxy
	fallback http.Handler
	metrics  *metrics
	log      *slog.Logger

	busy sync.WaitGroup // requests that are being answered
}

// newHandler completes h: devices, ways, dialer, limits, fallback, metrics and
// log are given.
func newHandler(h *handler) *handler {
	lim := h.limits
	h.linger = linger
	h.tunnels = newQuota("connections to destinations", lim.Tunnels, lim.DeviceTunnels)
	h.flows = newQuota("flows of datagrams", lim.Flows, lim.DeviceFlows)
	h.metrics.watch(h.tunnels, h.flows)
	h.plain = &httputil.ReverseProxy{
		// The request names its origin itself; its query passes as it is.
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.RawQuery = r.In.URL.RawQuery },
		Transport: &http.Transport{
			DialContext:            h.dialHTTP,
			DisableCompression:     true, // bytes pass as they are
			DisableKeepAlives:      true, // origins must not see two devices on one connection
			ResponseHeaderTimeout:  lim.ResponseTime,
			MaxResponseHeaderBytes: int64(lim.HeaderBytes),
		},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { refuse(w, err) },
		ErrorLog:      slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	return h
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.busy.Add(1)
	defer h.busy.Done()
	m, ok := streamOf(r)
	if !ok {
		h.site(w, r)
		return
	}
	// The row as it is now: the secret may have changed since the stream began.
	d, known := h.devices.get(m.lease.device.ID)
	g, offered := guest{lease: m.lease, device: d}, h.ways.Load()
	switch {
	case !known:
		h.site(w, r)
	case offered.opens(mesh.TransportWS) && offered.webSocket[r.URL.Path] && isUpgrade(r):
		h.webSocket(w, r, m, g)
	case offered.opens(mesh.TransportGRPC) && isCall(r, offered.grpc):
		h.grpc(w, r, g)
	case offered.has(mesh.ProtocolHTTP, mesh.TransportTCP):
		h.proxy(w, r, g)
	default:
		h.site(w, r)
	}
}

// proxy serves a request where the cell offers HTTP.
func (h *handler) proxy(w http.ResponseWriter, r *http.Request, g guest) {
	authorized := authorized(r.Header, g.device)
	if authorized {
		g.lease.shown.Store(true)
	}
	hidden := r.Method == http.MethodConnect && isHidden(r.URL.Host, g.device)
	switch {
	case authorized && hidden:
		h.count("hidden")
		closeTunnel(w, r)
	case authorized && r.Method == http.MethodConnect:
		h.count("connect")
		h.connect(w, r, g)
	case authorized && namesOrigin(r, g.lease.name):
		h.count("plain")
		h.forwardPlain(w, r, g)
	case hidden:
		h.count("challenge")
		w.Header().Set("Proxy-Authenticate", `Basic realm="Restricted"`)
		http.Error(w, "407 Proxy Authentication Required", http.StatusProxyAuthRequired)
	default:
		h.site(w, r)
	}
}

// site answers as a web server.
func (h *handler) site(w http.ResponseWriter, r *http.Request) {
	h.count("fallback")
	r.Header.Del("Proxy-Authorization")
	h.fallback.ServeHTTP(w, r)
}

func (h *handler) count(kind string) { h.metrics.requests.WithLabelValues(kind).Inc() }

// authorized says whether the one Proxy-Authorization header is Basic with the
// device's id and secret. Wrong and absent are the same; the comparison takes
// the same time for both halves.
func authorized(hd http.Header, d mesh.ServedDevice) bool {
	values := hd.Values("Proxy-Authorization")
	if len(values) != 1 {
		return false
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Basic") {
		return false
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return false
	}
	user, secret, _ := strings.Cut(string(raw), ":")
	same := subtle.ConstantTimeCompare([]byte(user), []byte(d.ID)) == 1
	return d.Verifiers.CheckHTTP(d.ID, mesh.Secret(secret)) && same
}

// isHidden says whether a CONNECT target is the device's hidden host, on
// whatever port.
func isHidden(target string, d mesh.ServedDevice) bool {
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		host = target
	}
	n, err := mesh.ParseServerName(host)
	return err == nil && d.HiddenHost != "" && n == d.HiddenHost
}

// namesOrigin says whether a request names another origin than this server. In
// HTTP/2 all name one, and net/http does not tell of the scheme: what is asked
// of a proxy, beside CONNECT, is http.
func namesOrigin(r *http.Request, own mesh.ServerName) bool {
	if r.ProtoMajor == 2 && r.Host != "" {
		if n, err := mesh.ParseServerName(strings.TrimSuffix(r.Host, ":443")); err != nil || n != own {
			r.URL.Scheme, r.URL.Host = "http", r.Host
		}
	}
	return r.URL.IsAbs()
}

// forwardPlain passes one request in absolute form to its origin. Credentials
// and other hop-by-hop headers stay here, and nothing tells of the proxy.
func (h *handler) forwardPlain(w http.ResponseWriter, r *http.Request, g guest) {
	if r.URL.Scheme != "http" || r.URL.Host == "" || r.URL.User != nil {
		http.Error(w, "only http:// URLs; use CONNECT for others", http.StatusBadRequest)
		return
	}
	h.plain.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), guestKey{}, g)))
}

// guestKey is where the guest of a plain request is, for whoever dials for it.
type guestKey struct{}

// dialHTTP is how the plain proxy reaches origins. Each connection is of one
// request, and counts for its guest.
func (h *handler) dialHTTP(ctx context.Context, _, address string) (net.Conn, error) {
	to, err := parseDestination(address)
	if err != nil {
		return nil, err
	}
	g, ok := ctx.Value(guestKey{}).(guest)
	if !ok {
		return nil, fmt.Errorf("core: a request of nobody: %w", mesh.ErrDenied)
	}
	c, err := h.dial(ctx, g, to)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// refuse answers an authorized client whose destination cannot be had.
func refuse(w http.ResponseWriter, err error) {
	status, text := http.StatusBadGateway, "the destination cannot be reached"
	switch {
	case errors.Is(err, mesh.ErrInvalid):
		status, text = http.StatusBadRequest, "the destination is not host:port"
	case errors.Is(err, mesh.ErrDenied):
		status, text = http.StatusForbidden, "the destination is not allowed here: "+reason(err)
	case isTimeout(err):
		status, text = http.StatusGatewayTimeout, "the destination did not answer in time"
	}
	http.Error(w, text, status)
}

// reason is the first line of err: a name may have many addresses.
func reason(err error) string {
	line, _, _ := strings.Cut(mesh.Plain(err), "; ")
	return mesh.Quotable(line)
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && ne.Timeout()
}
