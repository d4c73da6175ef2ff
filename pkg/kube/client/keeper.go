package client

import (
	"context"
	"sync"

	"github.com/meshctl/meshctl/pkg/kube"
)

// Keeper keeps one cluster as the last work says, and reports how it is.
type Keeper struct {
	// Report is called whenever something is different, and every half minute, by one
	// goroutine.
	Report func(kube.Observation)

	pace pace // zero: the usual

	mu   sync.Mutex
	work *kube.Work    // guarded by mu
	news chan struct{} // guarded by mu; holds one
}

// Set says what is to be from now on. A new connection begins anew; otherwise what was
// learned stays. It does not block.
func (k *Keeper) Set(w kube.Work) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.work = &w
	select {
	case k.told() <- struct{}{}:
	default:
	}
}

// told is where news come; mu is held.
func (k *Keeper) told() chan struct{} {
	if k.news == nil {
		k.news = make(chan struct{}, 1)
	}
	return k.news
}

func (k *Keeper) latest() (*kube.Work, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.work, k.told()
}

// Run works until ctx ends; nothing of it goes on then.
func (k *Keeper) Run(ctx context.Context) {
	if k.pace == (pace{}) {
		k.pace = usual()
	}
	for ctx.Err() == nil {
		w, news := k.latest()
		if w == nil {
			select {
			case <-ctx.Done():
			case <-news:
			}
			continue
		}
		k.keep(ctx, *w, news)
	}
}

// keep works with one connection, until another is wanted.
func (k *Keeper) keep(ctx context.Context, w kube.Work, news <-chan struct{}) {
	c, err := dial(w.API)
	if err != nil {
		k.refuse(ctx, w, err, news)
		return
	}
	defer c.idle()
	ctx, cancel := context.WithCancel(ctx)
	s := newSession(k, c, w)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, kind := range kinds {
		watcher := &watcher{conn: c, kind: kind, owner: s.applier.owner, cache: s.cache, pace: k.pace}
		wg.Go(func() { watcher.run(ctx) })
	}
	s.run(ctx, news)
}

// refuse reports that the connection cannot be, until another is wanted.
func (k *Keeper) refuse(ctx context.Context, w kube.Work, why error, news <-chan struct{}) {
	k.Report(kube.Observation{Cluster: w.Cluster, Release: w.Release, Mark: w.Mark, At: now(), Failure: kube.Other, Detail: why.Error()})
	select {
	case <-ctx.Done():
	case <-news:
	}
}
