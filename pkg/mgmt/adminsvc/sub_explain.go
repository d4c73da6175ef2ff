package adminsvc

import (
	"context"
	"net"
	"slices"
	"strconv"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/subscription"
)

// explainNodes says what the document has, and which cores are behind it.
func (s *Service) explainNodes(ctx context.Context, out *admin.SubExplanation, u usage, e subscription.Explanation) error {
	out.Cells, out.Nodes, out.Left = []admin.SubCell{}, []admin.SubNode{}, []admin.SubLeft{}
	for _, n := range e.In {
		out.Nodes = append(out.Nodes, admin.SubNode{
			Name: n.Name, Cell: n.Cell, Address: net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port))), ServerName: n.ServerName, Offer: n.Offer,
		})
		if slices.ContainsFunc(out.Cells, func(c admin.SubCell) bool { return c.Name == n.Cell }) {
			continue
		}
		cores, err := s.coresBehind(ctx, n.ServerName, u)
		if err != nil {
			return err
		}
		out.Cells = append(out.Cells, admin.SubCell{Name: n.Cell, State: u.cellNamed(n.Cell).State, Guest: n.Guest, Cores: cores})
	}
	for _, l := range e.Left {
		out.Left = append(out.Left, admin.SubLeft(l))
	}
	return nil
}

// coresBehind are the names of the cores that the route of a server name has.
func (s *Service) coresBehind(ctx context.Context, name mesh.ServerName, u usage) ([]string, error) {
	r, err := s.Store.Routes.Get(ctx, name)
	return u.named(r.Value.Hops), ignoreAbsent(err)
}

// named are the names of cores, or what there is of those that are gone.
func (u usage) named(hops []mesh.Hop) []string {
	out := make([]string, len(hops))
	for i, h := range hops {
		out[i] = h.ID
		if c, ok := u.cores[mesh.CoreID(h.ID)]; ok {
			out[i] = c.Name
		}
	}
	return out
}

func (u usage) cellNamed(name string) mesh.Cell {
	for _, c := range u.cells {
		if c.Name == name {
			return c
		}
	}
	return mesh.Cell{}
}
