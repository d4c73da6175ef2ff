package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Identity checks the certificate that a node keeps in dir.
func Identity(dir string) Check {
	return Check{"identity", func(context.Context) Finding {
		node, err := LoadNode(dir)
		switch {
		case errors.Is(err, mesh.ErrNotFound):
			return warn("this machine has not joined", "join with a token from `meshctl admin token create`")
		case err != nil:
			return fail(mesh.Plain(err), mesh.Hint(err))
		}
		leaf := node.Leaf()
		left := time.Until(leaf.NotAfter)
		detail := fmt.Sprintf("%s, certificate ends %s", node.Identity().Node(), leaf.NotAfter.UTC().Format(time.RFC3339))
		switch {
		case left <= 0:
			return fail(detail+": expired", "join again with a new token")
		case left < leaf.NotAfter.Sub(leaf.NotBefore)/4:
			return warn(detail+": renewal is late", "see the log of the role for why it cannot renew")
		}
		return ok(detail)
	}}
}

// LoadNode reads the identity in a folder. It does not make the folder, and
// returns ErrNotFound when there is none.
func LoadNode(dir string) (*identity.Node, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("doctor: no identity in %s: %w", dir, mesh.ErrNotFound)
	}
	f, err := identity.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	return f.Load()
}
