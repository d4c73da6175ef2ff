package gateway

import (
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/grpc/metadata"
)

// Epoch is the metadata that names a server's mesh epoch: in the trailer of a
// reply, and in the header of a watch stream.
const Epoch = "meshctl-epoch"

// moment is a revision of the store. After a restore from a backup revisions
// begin anew, in another epoch of the mesh.
type moment struct{ epoch, revision int64 }

// reaches says whether what is of moment m has everything that is of moment o.
// Of another epoch nothing can be said.
func (m moment) reaches(o moment) bool { return m.epoch == o.epoch && m.revision >= o.revision }

// epoch is what replies say of the mesh epoch.
func (s *Server) epoch() metadata.MD {
	said := metadata.MD{}
	if s.Epoch != nil && s.Epoch() > 0 {
		said.Set(Epoch, strconv.FormatInt(s.Epoch(), 10))
	}
	return said
}

// errEpoch is the fault of a server that has an old copy of the state, or
// another one than was asked before.
var errEpoch = errors.New("the server's state is of another mesh epoch")

// floor is the mesh epoch that this node has seen proven. Nothing older is
// believed.
func (c *Client) floor() int64 {
	if c.cfg.Revocations == nil {
		return 1
	}
	return max(1, c.cfg.Revocations.Epoch())
}

// epochOf reads which epoch a server is of, and refuses one that is over. A
// server that does not say it is taken to be of the present one.
func (c *Client) epochOf(said metadata.MD) (int64, error) {
	list := said.Get(Epoch)
	if len(list) == 0 {
		return c.floor(), nil
	}
	epoch, err := strconv.ParseInt(list[0], 10, 64)
	if err != nil || epoch < c.floor() {
		return epoch, fmt.Errorf("epoch %q, %d is the present one: %w", list[0], c.floor(), errEpoch)
	}
	return epoch, nil
}
