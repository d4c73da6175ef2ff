package store

import (
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// NameOf is the name of what events and alerts call kind/id; "" when it has none,
// or is gone.
func (s *Store) NameOf(tx *Tx, object string) (name string, err error) {
	kind, id, _ := strings.Cut(object, "/")
	switch kind {
	case "core":
		c, e := Get(tx, s.Cores, mesh.CoreID(id))
		name, err = c.Name, e
	case "entry":
		c, e := Get(tx, s.Entries, mesh.EntryID(id))
		name, err = c.Name, e
	case "cell":
		c, e := Get(tx, s.Cells, mesh.CellID(id))
		name, err = c.Name, e
	case "kube":
		c, e := Get(tx, s.Kubes, mesh.KubeID(id))
		name, err = c.Name, e
	case "server":
		c, e := Get(tx, s.Servers, mesh.ServerID(id))
		name, err = c.Name, e
	}
	if k := mesh.Kind(err); k == mesh.ErrNotFound || k == mesh.ErrInvalid {
		return "", nil
	}
	return name, err
}
