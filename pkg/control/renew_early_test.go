package control_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// A server asks for a certificate to be replaced long before it is due: the
// node does so once, says so, and takes no notice of what is said of another.
func TestRenewalIsEarlyWhenAskedFor(t *testing.T) {
	m := identitytest.New(t)
	f, node := m.Folder(t, m.Identity(mesh.RoleEntry))
	first := node.Leaf().SerialNumber.String()
	reported := make(chan string, 100)
	var mu sync.Mutex // guards renewals
	renewals := 0
	server := serve(t, &mgmt{
		renew: func(p identity.Peer, r *controlpb.RenewRequest) (*controlpb.RenewResponse, error) {
			mu.Lock()
			defer mu.Unlock()
			renewals++
			return &controlpb.RenewResponse{Chain: m.Answer(t, p.Identity, r.GetCsr())}, nil
		},
		connect: func(st controlpb.NodeControl_ConnectServer) error {
			if _, err := st.Recv(); err != nil {
				return err
			}
			for _, msg := range []*controlpb.MgmtMessage{
				{Body: &controlpb.MgmtMessage_Welcome{Welcome: &controlpb.Welcome{MeshId: string(m.ID), ClockUnixNanos: time.Now().UnixNano()}}},
				{Body: &controlpb.MgmtMessage_RenewNow{RenewNow: &controlpb.RenewNow{Serial: first, WithinNanos: int64(time.Millisecond)}}},
				{Body: &controlpb.MgmtMessage_RenewNow{RenewNow: &controlpb.RenewNow{Serial: first, WithinNanos: -1}}},
				{Body: &controlpb.MgmtMessage_RenewNow{RenewNow: &controlpb.RenewNow{Serial: "1"}}},
			} {
				if err := st.Send(msg); err != nil {
					return err
				}
			}
			for {
				msg, err := st.Recv()
				if err != nil {
					return err
				}
				if r := msg.GetReport(); r != nil {
					reported <- r.GetCertificate()
				}
			}
		},
	}, m.Node(t, mesh.RoleMgmt), nil)
	revs, err := identity.OpenRevocations(filepath.Join(t.TempDir(), "revocations"), node.Roots(), m.ID)
	if err != nil {
		t.Fatal(err)
	}
	early := make(chan control.EarlyRenewal, 1)
	st := state(t, server.addr)
	home := &control.PhoneHome{Node: node, Folder: f, State: st, Revocations: revs, Role: &quietRole{}, Log: logger(t), Early: early, PingEvery: 60 * time.Millisecond}
	renewer := &control.Renewer{Node: node, Folder: f, State: st, Revocations: revs, Log: logger(t), Early: early}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, part := range []func(context.Context) error{home.Run, renewer.Run} {
		wg.Go(func() {
			if err := part(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	defer wg.Wait()
	defer stop()
	eventually(t, "the node says that it holds another certificate", func() bool {
		select {
		case serial := <-reported:
			return serial != first && serial == node.Leaf().SerialNumber.String()
		default:
			return false
		}
	})
	stop()
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if renewals != 1 {
		t.Errorf("renewed %d times", renewals)
	}
	if n, err := f.Load(); err != nil || n.Leaf().SerialNumber.String() == first {
		t.Errorf("on disk is the old one: %v", err)
	}
}
