package core

import (
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	maxPaths   = 16  // of one transport, which are some while they are replaced
	maxPathLen = 128 // bytes
)

// ways are how clients may come in, as management applied it last. What is not
// among them does not exist for a client: it meets the web server.
type ways struct {
	offers    map[mesh.Offer]bool
	webSocket map[string]bool // paths
	grpc      map[string]bool // names of services
}

// has says whether clients may speak p over t.
func (w *ways) has(p mesh.Protocol, t mesh.Transport) bool {
	return w.offers[mesh.Offer{Protocol: p, Transport: t}]
}

// opens says whether anything may be spoken over t, other than HTTP itself.
func (w *ways) opens(t mesh.Transport) bool {
	return w.has(mesh.ProtocolVLESS, t) || w.has(mesh.ProtocolTrojan, t)
}

// parseWays reads what management wants offered. Of a server that knows no
// offers comes HTTP alone, which is what there was. It returns ErrInvalid.
func parseWays(c *controlpb.Config) (*ways, error) {
	w := &ways{offers: map[mesh.Offer]bool{}}
	for _, s := range c.GetOffers() {
		var o mesh.Offer
		if err := o.UnmarshalText([]byte(s)); err != nil {
			return nil, err
		}
		w.offers[o] = true
	}
	if len(w.offers) == 0 {
		w.offers[mesh.Offer{Protocol: mesh.ProtocolHTTP, Transport: mesh.TransportTCP}] = true
	}
	var err error
	if w.webSocket, err = pathSet(c.GetWebsocketPaths(), "/"); err != nil {
		return nil, err
	}
	w.grpc, err = pathSet(c.GetGrpcServices(), "")
	return w, err
}

func pathSet(list []string, prefix string) (map[string]bool, error) {
	if len(list) > maxPaths {
		return nil, fmt.Errorf("core: %d paths of one transport: want at most %d: %w", len(list), maxPaths, mesh.ErrInvalid)
	}
	out := make(map[string]bool, len(list))
	for _, s := range list {
		if len(s) <= len(prefix) || len(s) > maxPathLen || !strings.HasPrefix(s, prefix) || strings.Trim(s[len(prefix):], pathChars) != "" {
			return nil, fmt.Errorf("core: path %q: want %q and letters, digits, dots, hyphens or underscores: %w", mesh.Quotable(s), prefix, mesh.ErrInvalid)
		}
		out[s] = true
	}
	return out, nil
}

// pathChars are those of paths and names of services. Where a path ends has to
// be the same for every client, so there is nothing to escape.
const pathChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/"
