package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/dev"
)

const (
	// steadyLife is that of every certificate here. Renewal comes after 8 s of it
	// or a little more, so that ten minutes have nearly as many as an hour of
	// certificates that live one minute.
	steadyLife = 12 * time.Second
	// renewalVar names the variable for a longer run, as 10m.
	renewalVar = "MESHCTL_RENEWAL"
)

// renewalTime is how long there is load: two lives, or what the variable says.
func renewalTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(renewalVar)
	if text == "" {
		return 2 * steadyLife
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", renewalVar, err)
	}
	return d
}

func shortLives(_ string, config map[string]any) {
	if founding, ok := config["founding"].(map[string]any); ok {
		founding["node-cert-life"], founding["mgmt-cert-life"] = steadyLife.String(), steadyLife.String()
	}
}

// TestRenewalUnderLoad lets every certificate of a mesh be renewed over and over
// while clients come and stay, and servers are killed and started one after the
// other. No connection may fail or be cut.
func TestRenewalUnderLoad(t *testing.T) {
	length := renewalTime(t)
	m := newMesh(t, dev.Settings{Servers: 3, Cores: 2, Entries: 2, Configure: shortLives})
	c, echo := addDevice(t, m, "steady"), echoServer(t)
	for _, entry := range m.EntryAddresses {
		eventually(t, patience, "served", func() error { return c.tryEcho(t.Context(), entry, echo) })
	}
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	l := &load{client: c, entries: m.EntryAddresses, echo: echo, cells: map[string]bool{}}
	for i := range 4 {
		l.stay(ctx, c.mustConnect(t, m.EntryAddresses[i%2], echo))
	}
	l.wg.Go(func() { l.come(ctx) })
	for n := 0; ctx.Err() == nil; n++ {
		waited(ctx, length/9)
		if ctx.Err() == nil {
			kill(t, m.Servers[n%3])
			waited(ctx, 2*time.Second)
			restart(t, m, m.Servers[n%3])
		}
		waited(ctx, max(length/9, steadyLife))
	}
	l.wg.Wait()
	if l.failed > 0 || l.cut > 0 {
		t.Errorf("of %d connections %d failed, of 4 that were open %d were cut: %v", l.made, l.failed, l.cut, errors.Join(l.faults...))
	}
	t.Logf("%v: of %d new connections %d failed; over 4 open ones %d bytes, %d cut; %d certificates of the cell seen", length, l.made, l.failed, l.bytes, l.cut, len(l.cells))
	if len(l.cells) < int(length/steadyLife) {
		t.Errorf("clients saw %d certificates of the cell", len(l.cells))
	}
	for _, p := range slices.Concat(m.Servers, m.Cores, m.Entries) {
		n := renewalsOf(t, p)
		t.Logf("%s renewed %d times", p.Name, n)
		if n < int(length/steadyLife) {
			t.Errorf("%s renewed %d times", p.Name, n)
		}
	}
}

// waited returns after d, or when ctx ends.
func waited(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// renewalsOf counts in the log, whatever process wrote it.
func renewalsOf(t *testing.T, p *dev.Process) int {
	t.Helper()
	log, err := os.ReadFile(p.Log)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(log); strings.Contains(p.Name, "mgmt") {
		return strings.Count(s, `msg="own certificate renewed"`)
	}
	return strings.Count(string(log), `msg="certificate renewed"`)
}

// load is what clients do meanwhile, and what they noticed.
type load struct {
	client  client
	entries []string
	echo    string
	wg      sync.WaitGroup

	mu                sync.Mutex // guards what follows
	made, failed, cut int
	bytes             int64
	faults            []error // the first few
	cells             map[string]bool
}

func (l *load) fault(count *int, err error) {
	*count++
	if len(l.faults) < 5 {
		l.faults = append(l.faults, err)
	}
}

// come opens a connection twenty times a second, through each entry in turn.
func (l *load) come(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.wg.Go(func() { l.once(l.entries[n%len(l.entries)]) })
	}
}

func (l *load) once(entry string) {
	begin := time.Now()
	tun, err := l.client.connect(context.Background(), entry, l.echo) // one under way is finished
	var state tls.ConnectionState
	if err == nil {
		state = tun.ConnectionState()
		err = errors.Join(tun.echo(setupTime), tun.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made++
	if err != nil {
		l.fault(&l.failed, fmt.Errorf("through %s at %s after %v: %w", entry, begin.Format(time.TimeOnly), time.Since(begin), err))
		return
	}
	l.cells[state.PeerCertificates[0].SerialNumber.String()] = true
}

// stay sends bytes back and forth over one connection until ctx ends.
func (l *load) stay(ctx context.Context, tun *tunnel) {
	l.wg.Go(func() {
		for ctx.Err() == nil {
			err := tun.echo(setupTime)
			l.mu.Lock()
			if err != nil {
				l.fault(&l.cut, fmt.Errorf("an open one: %w", err))
			}
			l.bytes += int64(len(echoText))
			l.mu.Unlock()
			if err != nil {
				return
			}
			waited(ctx, 100*time.Millisecond)
		}
	})
}
