package cmd

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// renew replaces the administrator's certificate when two thirds of its life
// are over, or the server said that its issuer is one no longer, after the work of a command that reached the server. What the
// command did stands either way, so a failure is a warning.
func (s *adminSession) renew(ctx context.Context) {
	if s.link == nil || s.link.node == nil || s.now.Before(renewalDue(s.link.node)) && !s.link.renewNow.Load() {
		return
	}
	if err := renewAdmin(ctx, s.link); err != nil {
		fmt.Fprintf(s.err(), "warning: your certificate ends at %s and could not be renewed: %v\n",
			at(s.link.node.Leaf().NotAfter, s.now), err)
	}
}

func renewalDue(n *identity.Node) time.Time {
	issued := n.Leaf().NotBefore.Add(mesh.Backdate)
	return issued.Add(n.Leaf().NotAfter.Sub(issued) * 2 / 3)
}

func renewAdmin(ctx context.Context, l *adminLink) error {
	home, err := adminHome()
	if err != nil {
		return err
	}
	folder, err := identity.OpenFolder(filepath.Join(home, adminIdentity))
	if err != nil {
		return err
	}
	pending, err := folder.NewRequest()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, adminDialTime)
	defer cancel()
	resp, err := controlpb.NewRenewalClient(l).Renew(ctx, &controlpb.RenewRequest{Csr: pending.CSR()})
	if err != nil {
		return rpcstatus.From(err)
	}
	if _, err := folder.Commit(pending, resp.GetChain()); err != nil {
		return err
	}
	if len(resp.GetMgmtAddresses()) == 0 {
		return nil
	}
	return saveAdminServers(resp.GetMgmtAddresses())
}
