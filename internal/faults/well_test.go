//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// WaitUntilWell waits until every role is ready, management is highly available,
// every node is connected, and clients are served through both entries.
func (l *Lab) WaitUntilWell(t testing.TB) time.Duration {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // that of a test ends before its cleanup
	var last error
	took := l.WaitFor(t, patience, "the mesh is well", func() error {
		err := l.Well(ctx)
		if err != nil {
			last = err
		}
		return err
	})
	t.Logf("well after %v; last was: %v", took.Round(time.Millisecond), last)
	return took
}

// Well says what is not as it should be.
func (l *Lab) Well(ctx context.Context) error {
	for _, check := range []func(context.Context) error{l.rolesReady, l.serversWell, l.nodesWell, l.clientsServed} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) rolesReady(ctx context.Context) error {
	for _, h := range l.roles() {
		if err := h.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) serversWell(ctx context.Context) error {
	for _, h := range l.Mgmt {
		s, err := callAt(ctx, l, h, admin.ServerStatusGet, admin.None{})
		if err != nil {
			return err
		}
		if !s.HighlyAvailable || len(s.Etcd.Alarms) > 0 {
			return fmt.Errorf("%s: %s, alarms %v, problems %v", h.Name, s.Availability, s.Etcd.Alarms, s.Problems)
		}
	}
	return nil
}

func (l *Lab) nodesWell(ctx context.Context) error {
	cores, err := call(ctx, l, admin.CoreList, admin.Page{})
	if err != nil {
		return err
	}
	well := 0
	for _, c := range cores.Items {
		if c.State == mesh.CoreReady && c.Status != nil && c.Status.Connected {
			well++
		}
	}
	if well < len(l.Cores) {
		return fmt.Errorf("%d cores of %d are ready and connected", well, len(l.Cores))
	}
	entries, err := call(ctx, l, admin.EntryList, admin.Page{})
	if err != nil {
		return err
	}
	well = 0
	for _, e := range entries.Items {
		if e.Status != nil && e.Status.Connected {
			well++
		}
	}
	if well < len(l.Entries) {
		return fmt.Errorf("%d entries of %d are connected", well, len(l.Entries))
	}
	return nil
}

func (l *Lab) clientsServed(ctx context.Context) error {
	if len(l.clients) == 0 {
		return nil
	}
	var errs []error
	for i, e := range l.Entries {
		for j := range 4 {
			errs = append(errs, l.clients[(4*i+j)%len(l.clients)].Try(ctx, e))
		}
	}
	return errors.Join(errs...)
}
