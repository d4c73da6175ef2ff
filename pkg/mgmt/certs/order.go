package certs

import (
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func (s *Service) now() time.Time { return time.Now().UTC() }

// asked is an order after another request. A failure of the one before holds the
// next back: an authority counts by name, and so do we.
func asked(o mesh.CertOrder, csr []byte, now time.Time) mesh.CertOrder {
	o.Request, o.Asked = csr, now
	return o
}

// made is an order after a certificate has come.
func made(o mesh.CertOrder, chain [][]byte, end time.Time, by mesh.CertificateOrder, now time.Time) mesh.CertOrder {
	return mesh.CertOrder{Request: o.Request, Asked: o.Asked, Chain: chain, By: by, Issued: now, NotAfter: end.UTC()}
}

// failed is an order after a failure, which is tried again not before next.
func failed(o mesh.CertOrder, why string, next, now time.Time) mesh.CertOrder {
	o.Failures++
	o.Failed, o.Reason, o.Next = now, why, next
	return o
}
