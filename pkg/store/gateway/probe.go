package gateway

import (
	"context"
	"strings"
	"sync"
	"time"
)

const (
	// probeEvery is how often servers in doubt are probed, and probeTimeout how
	// long each may take.
	probeEvery   = 500 * time.Millisecond
	probeTimeout = 500 * time.Millisecond
	// idleAfter is how long a good server may go unasked.
	idleAfter = 2 * time.Second
)

// probe asks servers that are in doubt, or that nobody has asked for a while,
// for a target that does not exist. So it is known before a client comes who
// answers and how near each server is.
func (c *Client) probe(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		c.sync()
		var wg sync.WaitGroup
		for _, s := range c.servers.all() {
			if s.quiet(idleAfter) {
				wg.Go(func() { c.probeOne(ctx, s) })
			}
		}
		wg.Wait()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (c *Client) probeOne(ctx context.Context, s *server) {
	// What it says is recorded with the server; there is nothing to add.
	_ = once(ctx, c, asked{s, time.Now()}, read(TargetKey("core-"+strings.Repeat("a", 16)), true), probeTimeout)
}
