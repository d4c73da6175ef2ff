package dev

import (
	"context"
	"errors"
	"path/filepath"
	"time"
)

// SocketPath is the unix socket of the first management server.
func (m *Mesh) SocketPath() string { return m.socketOf(m.serverName(0)) }

func (m *Mesh) socketOf(server string) string { return filepath.Join(m.Dir, server+".sock") }

// Wait blocks until ctx ends, which is a clean end, or a part ends by itself,
// which is an error that shows the end of its log.
func (m *Mesh) Wait(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var errs []error
		for _, p := range m.processes() {
			if p.Exited() {
				errs = append(errs, p.ended())
			}
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
}
