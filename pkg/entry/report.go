package entry

import (
	"context"
	"crypto/tls"
	"errors"
	"hash/maphash"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxReported bounds the cores in one report, so that it stays a small message;
// the others come with the next.
const maxReported = 1000

// results returns how dials to cores went since the last call.
func (c *cores) results() []*controlpb.DialResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*controlpb.DialResult
	for id, k := range c.known {
		if len(out) == maxReported {
			break
		}
		if k.answered+k.failed > 0 && k.target.Kind != mesh.HopMgmt {
			out = append(out, &controlpb.DialResult{Core: id, Succeeded: k.answered, Failed: k.failed, LastError: k.lastErr, Fault: string(k.fault)})
			k.answered, k.failed, k.lastErr, k.fault = 0, 0, "", ""
		}
	}
	return out
}

// restore takes results back that may not have arrived.
func (c *cores) restore(results []*controlpb.DialResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range results {
		k := c.ofLocked(r.GetCore())
		k.answered += r.GetSucceeded()
		k.failed += r.GetFailed()
		if k.lastErr == "" {
			k.lastErr, k.fault = r.GetLastError(), mesh.DialFault(r.GetFault())
		}
	}
}

// relayed returns what was relayed in all through those cores for which it rose
// since it was told last.
func (c *cores) relayed() []*controlpb.CoreTraffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*controlpb.CoreTraffic
	for id, k := range c.known {
		if len(out) == maxReported {
			break
		}
		up, down := k.meter.Up.Load(), k.meter.Down.Load()
		if up+down > k.told && k.target.Kind != mesh.HopMgmt {
			k.told = up + down
			out = append(out, &controlpb.CoreTraffic{Core: id, Up: up, Down: down})
		}
	}
	return out
}

// untell has all counts told again: another server may not know them.
func (c *cores) untell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.known {
		k.told = 0
	}
}

// maxMissed bounds how many names that lead nowhere are told apart.
const maxMissed = 4096

// misses counts lookups of names that lead nowhere: somebody may be guessing.
type misses struct {
	mu    sync.Mutex // guards what follows
	count int64
	more  int64 // names of reports that were taken back
	names map[uint64]struct{}
	seed  maphash.Seed
}

func (m *misses) add(n mesh.ServerName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	if m.names == nil {
		m.names, m.seed = map[uint64]struct{}{}, maphash.MakeSeed()
	}
	if len(m.names) < maxMissed {
		m.names[maphash.String(m.seed, string(n))] = struct{}{}
	}
}

func (m *misses) take() (count, names int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	count, names = m.count, int64(len(m.names))+m.more
	m.count, m.more, m.names = 0, 0, nil
	return count, names
}

func (m *misses) restore(count, names int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count += count
	m.more += names
}

// faultOf says in a word how a dial failed.
func faultOf(err error) mesh.DialFault {
	var network net.Error
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return mesh.FaultRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return mesh.FaultUnreachable
	case untrusted, alert, errors.Is(err, mesh.ErrDenied):
		return mesh.FaultIdentity
	case errors.Is(err, errOvertaken), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return mesh.FaultTimeout
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return mesh.FaultReset
	}
	return mesh.FaultOther
}
