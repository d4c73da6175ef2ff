package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// perSecond is how many new connections the traffic of the demo makes.
const perSecond = 20

// traffic is what clients do while something is broken: they fetch the page, each
// time over a new connection, through each entry in turn, and one reads a
// download that does not end.
type traffic struct {
	page     string
	clients  []*http.Client // by entry
	download *http.Response
	stop     context.CancelFunc // of new connections
	abort    context.CancelFunc // of the download
	wg       sync.WaitGroup

	mu  sync.Mutex // guards what follows
	saw clientsSaw
}

// clientsSaw is what clients noticed.
type clientsSaw struct {
	made, failed int
	first        error         // why a connection failed
	slowest      time.Duration // of the new connections
	stall        time.Duration // the longest time without a byte of the download
	bytes        int64
	cut          error // why the download ended by itself; nil: it did not
}

// startTraffic begins, and returns when the download has its first bytes.
func (m *Mesh) startTraffic(ctx context.Context) (*traffic, error) {
	t := &traffic{page: m.Origin.URL()}
	for _, entry := range m.EntryAddresses {
		c, err := Client(m.Link, entry)
		if err != nil {
			return nil, err
		}
		t.clients = append(t.clients, c)
	}
	downloader, err := Client(m.Link, m.EntryAddresses[0])
	if err != nil {
		return nil, err
	}
	downloader.Timeout = 0
	return t, t.start(ctx, downloader, m.Origin.Download())
}

// start begins. On an error nothing goes on.
func (t *traffic) start(ctx context.Context, downloader *http.Client, download string) error {
	ctx = context.WithoutCancel(ctx) // it outlives the step
	reading, abort := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(reading, http.MethodGet, download, nil)
	if err == nil {
		t.download, err = downloader.Do(req)
	}
	if err != nil {
		abort()
		return fmt.Errorf("dev: download: %w", redactURL(err))
	}
	if t.download.StatusCode != http.StatusOK {
		abort()
		return errors.Join(fmt.Errorf("dev: download: got %s: %w", t.download.Status, mesh.ErrUnavailable), t.download.Body.Close())
	}
	connecting, stop := context.WithCancel(ctx)
	t.stop, t.abort = stop, abort
	t.wg.Go(func() { t.connect(connecting) })
	t.wg.Go(func() { t.read(reading) })
	return nil
}

// connect makes new connections until ctx ends; those under way are finished.
func (t *traffic) connect(ctx context.Context) {
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.wg.Go(func() { t.fetch(context.WithoutCancel(ctx), t.clients[i%len(t.clients)]) })
		}
	}
}

func (t *traffic) fetch(ctx context.Context, c *http.Client) {
	begin := time.Now()
	err := Fetch(ctx, c, t.page)
	took := time.Since(begin)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saw.slowest = max(t.saw.slowest, took)
	if err == nil {
		t.saw.made++
		return
	}
	t.saw.failed++
	t.saw.first = cmp.Or(t.saw.first, err)
}

// read takes the download until ctx ends.
func (t *traffic) read(ctx context.Context) {
	defer t.download.Body.Close()
	buf := make([]byte, 4096)
	last := time.Now()
	for {
		n, err := t.download.Body.Read(buf)
		now := time.Now()
		t.mu.Lock()
		t.saw.bytes += int64(n)
		t.saw.stall = max(t.saw.stall, now.Sub(last))
		if err != nil && ctx.Err() == nil {
			t.saw.cut = err
			if err == io.EOF {
				t.saw.cut = io.ErrUnexpectedEOF
			}
		}
		t.mu.Unlock()
		if err != nil {
			return
		}
		last = now
	}
}

// seen waits until there have been n more new connections.
func (t *traffic) seen(ctx context.Context, n int) error {
	want := t.count() + n
	return until(ctx, func(context.Context) error {
		if got := t.count(); got < want {
			return fmt.Errorf("dev: %d new connections of %d: %w", got, want, mesh.ErrUnavailable)
		}
		return nil
	})
}

func (t *traffic) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.saw.made + t.saw.failed
}

// end stops the traffic and returns what the clients saw. A second call returns
// the same.
func (t *traffic) end() clientsSaw {
	t.stop()
	t.abort()
	t.wg.Wait()
	return t.saw
}

// fault is what clients noticed and should not have; nil when they did not.
func (s clientsSaw) fault() error {
	var errs []error
	if s.failed > 0 {
		errs = append(errs, fmt.Errorf("dev: clients noticed: of %d new connections %d failed, the first: %w", s.made+s.failed, s.failed, s.first))
	}
	if s.cut != nil {
		errs = append(errs, fmt.Errorf("dev: clients noticed: the open download was cut: %w", s.cut))
	}
	return errors.Join(errs...)
}
