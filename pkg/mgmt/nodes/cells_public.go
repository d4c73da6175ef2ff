package nodes

import (
	"context"
	"crypto/x509"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// PublicCell takes note of a core's request for a certificate of a public
// authority. It returns the chain when there is one already, and nil while it is
// being made: then DeliverCell hands it over.
type PublicCell func(ctx context.Context, core mesh.Core, cell mesh.Cell, csr []byte) (chain [][]byte, err error)

// DeliverCell hands a core that is connected here, and has asked for it, a
// certificate of its cell. It waits for nothing.
func (s *Service) DeliverCell(core mesh.CoreID, chain [][]byte) {
	se := s.hub.get(string(mesh.RoleCore) + "/" + string(core))
	if se == nil || !se.awaits(chain) {
		return
	}
	if err := se.answer(cellMessage(&controlpb.CellCertificate{Chain: chain})); err != nil {
		se.end(err)
	}
}

// expect notes for which request the core awaits a certificate; nil: for none.
func (se *session) expect(csr []byte) {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.awaited = csr
}

// awaits says whether the chain is for the key of the request that the core
// awaits a certificate for, which it then does no longer.
func (se *session) awaits(chain [][]byte) bool {
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.awaited == nil || len(chain) == 0 {
		return false
	}
	r, err := x509.ParseCertificateRequest(se.awaited)
	leaf, err2 := x509.ParseCertificate(chain[0])
	if err != nil || err2 != nil || string(leaf.RawSubjectPublicKeyInfo) != string(r.RawSubjectPublicKeyInfo) {
		return false
	}
	se.awaited = nil
	return true
}

func cellMessage(m *controlpb.CellCertificate) *controlpb.MgmtMessage {
	return &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_CellCertificate{CellCertificate: m}}
}
