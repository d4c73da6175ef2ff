package core

import (
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	nonceLen   = 32
	maxProbes  = 16
	probeLife  = time.Minute
	probeReply = 5 * time.Second
)

// probes are the nonces management sent over NodeControl and may ask for on a
// probe connection, each once and within a minute. The zero value is ready.
type probes struct {
	mu   sync.Mutex // guards list
	list []probe    // oldest first
}

type probe struct {
	nonce [nonceLen]byte
	until time.Time
}

// add remembers a nonce; the oldest of too many goes. It returns ErrInvalid.
func (p *probes) add(nonce []byte, now time.Time) error {
	if len(nonce) != nonceLen {
		return fmt.Errorf("core: probe: nonce of %d bytes: %w", len(nonce), mesh.ErrInvalid)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) >= maxProbes {
		p.list = p.list[1:]
	}
	p.list = append(p.list, probe{[nonceLen]byte(nonce), now.Add(probeLife)})
	return nil
}

// answer returns the second half of the nonce that begins with half.
func (p *probes) answer(half []byte, now time.Time) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, x := range p.list {
		if subtle.ConstantTimeCompare(x.nonce[:nonceLen/2], half) == 1 {
			p.list = append(p.list[:i], p.list[i+1:]...)
			return x.nonce[nonceLen/2:], now.Before(x.until)
		}
	}
	return nil, false
}

// serve answers one probe connection or hangs up.
func (p *probes) serve(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(probeReply)); err != nil {
		return err
	}
	half := make([]byte, nonceLen/2)
	if _, err := io.ReadFull(c, half); err != nil {
		return fmt.Errorf("core: probe: read: %w", err)
	}
	rest, ok := p.answer(half, time.Now())
	if !ok {
		return fmt.Errorf("core: probe: unknown or late nonce: %w", mesh.ErrDenied)
	}
	if _, err := c.Write(rest); err != nil {
		return fmt.Errorf("core: probe: write: %w", err)
	}
	return nil
}
