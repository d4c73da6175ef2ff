package adminsvc

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// orderWarnings say why a core has no public certificate to show. A core is ready
// without one, as it can be reached; its clients see nothing there.
func (s *Service) orderWarnings(ctx context.Context, u usage) ([]string, error) {
	var out []string
	set, err := s.Store.ACME.Get(ctx, store.ACMEKey)
	if ignoreAbsent(err) != nil {
		return nil, err
	}
	ordered := err == nil
	if ordered {
		st, err := s.Store.ACMEState.Get(ctx, store.ACMEStateKey)
		if ignoreAbsent(err) != nil {
			return nil, err
		}
		if st.Value.Failures > 0 && st.Value.Directory == set.Value.Directory {
			out = append(out, fmt.Sprintf("no certificate can be ordered: the account is not there after %s: %s", some(st.Value.Failures, "attempt"), st.Value.Reason))
		}
	}
	certs, _, err := s.Store.CellCerts.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range u.cores {
		cell := u.cells[c.Cell]
		if c.State == mesh.CoreRevoked || cell.Certificate != mesh.CertificatePublic || cell.State == mesh.CellRetired ||
			len(certs[c.ID].Order.Chain) > 0 {
			continue
		}
		switch {
		case cell.Order != mesh.OrderACME:
			out = append(out, fmt.Sprintf("core %s has no certificate yet, so clients get nothing there: meshctl admin cell request %s, then meshctl admin cell certificate", c.Name, cell.ID))
		case !ordered:
			out = append(out, fmt.Sprintf("core %s has no certificate yet, so clients get nothing there, and nothing says how to order it: meshctl admin acme set", c.Name))
		}
	}
	slices.Sort(out)
	return out, nil
}
