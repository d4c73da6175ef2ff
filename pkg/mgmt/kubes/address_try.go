package kubes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// try returns nil if clients that dial the address come to entries.
func (l *Lookout) try(ctx context.Context, a mesh.KubeAddress, up []mesh.KubeAddress) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(l.Time, addressTime))
	defer cancel()
	if a.Source == mesh.AddressName {
		return l.leads(ctx, a.Host, up)
	}
	dial := l.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, "tcp", a.HostPort())
	if err != nil {
		return fmt.Errorf("kubes: no connection: %w", cause(ctx, err))
	}
	if err := l.answers(ctx, conn); err != nil {
		return errors.Join(fmt.Errorf("kubes: it accepts connections, and leads to no entry of this mesh: %w", cause(ctx, err)), ignoreClosed(conn.Close()))
	}
	return ignoreClosed(conn.Close())
}

func ignoreClosed(err error) error {
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("kubes: close the connection: %w", err)
	}
	return nil
}

// cause is err without the addresses of this side and the resolver, which differ
// from try to try.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("no answer in time")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if d, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New(d.Err)
	}
	return err
}

// answers asks for the subscription service, which entries bring to a server of
// the mesh: nobody else has its key.
func (l *Lookout) answers(ctx context.Context, conn net.Conn) error {
	name, own := mesh.ServerName(""), (*tls.Certificate)(nil)
	if l.Service != nil {
		name, own = l.Service()
	}
	if name == "" || own == nil {
		return nil
	}
	conf := &tls.Config{
		ServerName:         string(name),
		InsecureSkipVerify: true, // its own rules, below
		VerifyConnection:   func(st tls.ConnectionState) error { return ours(st.PeerCertificates, name, own) },
	}
	return tls.Client(conn, conf).HandshakeContext(ctx)
}

// ours says whether a server of the mesh has shown that chain: it is this
// server's own, or another for the same name by the same issuer, or by one that
// this machine trusts. Servers may have certificates of their own in files.
func ours(chain []*x509.Certificate, name mesh.ServerName, own *tls.Certificate) error {
	if len(chain) == 0 {
		return errors.New("kubes: it shows no certificate")
	}
	if bytes.Equal(chain[0].Raw, own.Certificate[0]) {
		return nil
	}
	inter, issuers := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range chain[1:] {
		inter.AddCert(c)
	}
	for _, der := range own.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			issuers.AddCert(c)
		}
	}
	opts := x509.VerifyOptions{DNSName: string(name), Intermediates: inter, Roots: issuers}
	if _, err := chain[0].Verify(opts); err == nil {
		return nil
	}
	opts.Roots = nil
	if _, err := chain[0].Verify(opts); err != nil {
		return fmt.Errorf("kubes: another certificate than that of %s: %w", name, err)
	}
	return nil
}

// leads returns nil if the name leads to one of those addresses.
func (l *Lookout) leads(ctx context.Context, name string, to []mesh.KubeAddress) error {
	if len(to) == 0 {
		return errors.New("kubes: no address answers that it could lead to")
	}
	have, err := l.lookUp(ctx, name)
	if err != nil {
		return err
	}
	var unknown []error
	for _, a := range to {
		want, err := l.lookUp(ctx, a.Host)
		unknown = append(unknown, err)
		if slices.ContainsFunc(want, func(ip netip.Addr) bool { return slices.Contains(have, ip) }) {
			return nil
		}
	}
	if err := errors.Join(unknown...); err != nil {
		return err
	}
	return fmt.Errorf("kubes: it leads to %s, where no entry of this cluster is", listOf(have))
}

func listOf(ips []netip.Addr) string {
	var out []string
	for _, ip := range ips[:min(len(ips), 5)] {
		out = append(out, ip.String())
	}
	return strings.Join(out, ", ")
}

// lookUp returns what a host name leads to, or the address that it is.
func (l *Lookout) lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	r := l.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	ips, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("kubes: look up %s: %w", host, cause(ctx, err))
	}
	for i, ip := range ips {
		ips[i] = ip.Unmap()
	}
	return ips, nil
}
