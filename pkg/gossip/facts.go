package gossip

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"unicode"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// parseFacts reads what another server tells of itself: it is shown to people
// and dialled. It returns ErrInvalid.
func parseFacts(b []byte) (Facts, error) {
	var f Facts
	if len(b) > maxFacts {
		return f, fmt.Errorf("gossip: facts of %d bytes, at most %d: %w", len(b), maxFacts, mesh.ErrInvalid)
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, fmt.Errorf("gossip: facts: not readable: %w", mesh.ErrInvalid)
	}
	_, err := mesh.ParseServerID(string(f.Server))
	err = errors.Join(err, mesh.CheckName(f.Name))
	if f.Mesh != "" {
		_, bad := mesh.ParseID(string(f.Mesh))
		err = errors.Join(err, bad)
	}
	if f.Address != "" {
		_, _, bad := net.SplitHostPort(f.Address)
		err = errors.Join(err, bad)
	}
	if odd := func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }; strings.ContainsFunc(f.Version+f.State+f.Address+f.Peer+f.Ring, odd) {
		err = errors.Join(err, errors.New("control characters"))
	}
	if err != nil {
		return f, fmt.Errorf("gossip: facts: %w: %w", err, mesh.ErrInvalid)
	}
	return f, nil
}
