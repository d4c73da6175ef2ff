//go:build clients

package clients

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// subscriber is a device of a member: all it knows is its link.
type subscriber struct {
	device admin.DeviceView
	link   string
}

// subscribe adds a device to a cell.
func subscribe(t *testing.T, name, cell string) subscriber {
	t.Helper()
	m := theMesh(t)
	d := call(t, m, admin.DeviceAdd, admin.DeviceAddRequest{Member: dev.MemberName, Name: name, Cell: cell})
	link := call(t, m, admin.DeviceSubscribe, admin.DeviceSubscribeRequest{Ref: string(d.ID)})
	if len(link.Warnings) > 0 {
		t.Errorf("the link comes with warnings: %q", link.Warnings)
	}
	s := subscriber{d, link.URL}
	until(t, func(ctx context.Context) error { _, err := s.fetch(ctx, "", ""); return err })
	return s
}

// fetch gets what is served to a User-Agent, with a query.
func (s subscriber) fetch(ctx context.Context, agent, query string) ([]byte, error) {
	c, err := run.mesh.SubscriptionClient(run.mesh.EntryAddresses[0])
	if err != nil {
		return nil, err
	}
	defer c.CloseIdleConnections()
	return dev.Document(ctx, c, s.link+query, agent)
}

// served is fetch, which must succeed.
func (s subscriber) served(t *testing.T, agent, query string) []byte {
	t.Helper()
	body, err := s.fetch(t.Context(), agent, query)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// until tries again and again until try succeeds.
func until(t *testing.T, try func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %v", patience, err)
		case <-time.After(200 * time.Millisecond): // below what a source may miss
		}
	}
}

// setCell changes a cell, and waits until its cores run the change.
func setCell(t *testing.T, m *dev.Mesh, req admin.CellSetRequest) {
	t.Helper()
	call(t, m, admin.CellSet, req)
	rolledOut(t, m)
}

func rolledOut(t *testing.T, m *dev.Mesh) {
	t.Helper()
	until(t, func(context.Context) error {
		if s := call(t, m, admin.StatusGet, admin.None{}); len(s.Rollouts) > 0 {
			return fmt.Errorf("on the way: %+v", s.Rollouts)
		}
		return nil
	})
}

// offerAll makes a cell offer every way in.
func offerAll(t *testing.T, m *dev.Mesh, cell string) {
	t.Helper()
	all := mesh.Offers()
	setCell(t, m, admin.CellSetRequest{Ref: cell, CellOptions: admin.CellOptions{Offers: &all}})
}
