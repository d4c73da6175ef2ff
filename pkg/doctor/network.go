package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// Listener checks that addr can be listened on. health is the role's own health
// address: when that answers, the port is in use by the role itself.
func Listener(what, addr, health string) Check {
	return Check{what + " " + addr, func(ctx context.Context) Finding {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err == nil {
			l.Close()
			return ok("free")
		}
		switch {
		case errors.Is(err, syscall.EADDRINUSE) && healthy(ctx, health):
			return ok("in use by the running meshctl")
		case errors.Is(err, syscall.EADDRINUSE) && health == "":
			return warn("in use, perhaps by the running meshctl", "without metrics-listen it cannot be asked; see who has the port with: ss -ltnp")
		case errors.Is(err, syscall.EADDRINUSE):
			return fail("in use, and no meshctl answers at "+health, "find who has it with: ss -ltnp; stop it, or listen elsewhere")
		case errors.Is(err, os.ErrPermission):
			return fail("this user may not listen below port 1024", "AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit, or a higher port")
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			return fail("this machine does not have the address", "see: ip address; correct the configuration")
		}
		return fail(err.Error(), "correct the address in the configuration")
	}}
}

func healthy(ctx context.Context, health string) bool {
	if health == "" {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+health+"/healthz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Reach checks a management server from here, stage by stage: name, TCP, TLS
// and identity. config is the node's own, or one pinned by a join token.
func Reach(addr string, config *tls.Config) Check {
	return Check{"management server " + addr, func(ctx context.Context) Finding {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return fail("not host:port", "correct the address")
		}
		if _, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
			return fail("its name does not resolve: "+err.Error(), "check the name, and this machine's DNS")
		}
		begin := time.Now()
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return fail("no TCP connection: "+err.Error(), "let this machine reach it through the firewalls on the way")
		}
		defer conn.Close()
		err = tls.Client(conn, config).HandshakeContext(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return fail("TCP works, TLS gets no answer", "the server may hang: look there with `meshctl mgmt status`")
		}
		if err != nil {
			return fail("TCP works, TLS does not: "+err.Error(), "another program may answer there, or the server is not of this mesh")
		}
		return ok(fmt.Sprintf("reached in %d ms, identity proven", time.Since(begin).Milliseconds()))
	}}
}
