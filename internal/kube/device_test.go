//go:build kube

package kube

import (
	"context"
	"crypto/x509"
	"testing"

	"github.com/meshctl/meshctl/internal/lab"
	"github.com/meshctl/meshctl/pkg/admin"
)

// device is a client of the mesh, with what its link says.
type device struct {
	link  admin.DeviceLink
	roots *x509.CertPool
	from  *host
	dest  string
}

func (m *Mesh) newDevice(t testing.TB, name string) *device {
	t.Helper()
	d := &device{from: m.client, dest: m.origin.at(7), roots: x509.NewCertPool()}
	view := must(t, m, admin.DeviceAdd, admin.DeviceAddRequest{Member: memberName, Name: name, Cell: cellName})
	d.link = must(t, m, admin.DeviceLinkOf, admin.Ref{Ref: string(view.ID)})
	if !d.roots.AppendCertsFromPEM([]byte(d.link.CA)) {
		t.Fatal("the link has no CA")
	}
	return d
}

// connect opens a tunnel through the entry at an address.
func (d *device) connect(ctx context.Context, entry string) (*lab.Tunnel, error) {
	ctx, cancel := context.WithTimeout(ctx, lab.SetupTime)
	defer cancel()
	raw, err := d.from.Dial(ctx, "tcp", entry)
	if err != nil {
		return nil, err
	}
	return lab.Open(ctx, raw, d.link, d.roots, d.dest)
}

// try opens a tunnel, sends a byte there and back, and closes it.
func (d *device) try(ctx context.Context, entry string) error {
	tun, err := d.connect(ctx, entry)
	if err != nil {
		return err
	}
	defer tun.Close()
	return tun.Echo(7, lab.SetupTime)
}
