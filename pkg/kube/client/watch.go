package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// page is how many objects one request lists.
const page = 500

// maxObjects bounds what is kept of one kind.
const maxObjects = 10_000

var (
	errGone    = errors.New("client: the revision is no longer known")
	errTooMany = errors.New("client: there are too many objects with our labels")
)

// watcher keeps one kind of the cache.
type watcher struct {
	*conn
	kind  kind
	owner owner
	cache *cache
	pace  pace
}

// run lists and watches until ctx ends. It never tries more often than its back-off
// allows, however politely an API ends its watches.
func (w *watcher) run(ctx context.Context) {
	b := backoff{min: w.pace.min, max: w.pace.max}
	var from string // a revision to watch from; "": list first
	for ctx.Err() == nil {
		began := time.Now()
		var err error
		if from == "" {
			from, err = w.list(ctx)
		}
		if err == nil {
			from, err = w.watch(ctx, from)
		}
		if err != nil && !errors.Is(err, errGone) && ctx.Err() == nil {
			w.cache.fail(w.kind.name, err)
		}
		// What was short-lived may have been no watch at all: a list says so.
		if settled := time.Since(began) > w.pace.settled; err == nil && settled {
			b.reset()
		} else {
			from = ""
		}
		b.wait(ctx, err)
	}
}

// list fills the cache and returns the revision that it is of.
func (w *watcher) list(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, w.pace.request)
	defer cancel()
	var items []unstructured.Unstructured
	opts := metav1.ListOptions{LabelSelector: w.owner.selector(), Limit: page}
	for {
		got, err := w.of(w.kind).List(ctx, opts)
		if err != nil {
			return "", err
		}
		items = append(items, got.Items...)
		if len(items) > maxObjects {
			return "", errTooMany
		}
		if opts.Continue = got.GetContinue(); opts.Continue == "" {
			w.cache.replace(w.kind.name, items)
			return got.GetResourceVersion(), nil
		}
	}
}

// watch follows from a revision, and returns the one that it came to. It ends when the
// API ends it, and when nothing came for too long: a connection can be dead without
// anybody saying so.
func (w *watcher) watch(ctx context.Context, from string) (string, error) {
	seconds := int64((w.pace.watch/2 + rand.N(w.pace.watch/2+1)) / time.Second)
	ctx, cancel := context.WithTimeout(ctx, w.pace.watch+w.pace.request)
	defer cancel()
	opening := time.AfterFunc(w.pace.request, cancel)
	stream, err := w.of(w.kind).Watch(ctx, metav1.ListOptions{
		LabelSelector: w.owner.selector(), ResourceVersion: from, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if !opening.Stop() && err == nil {
		stream.Stop()
		err = context.DeadlineExceeded
	}
	if err != nil {
		return from, goneOr(err)
	}
	defer stream.Stop()
	quiet := time.NewTimer(w.pace.quiet)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return from, nil
		case <-quiet.C:
			return from, nil
		case e, open := <-stream.ResultChan():
			if !open {
				return from, nil
			}
			quiet.Reset(w.pace.quiet)
			if e.Type == watch.Error {
				return "", errGone // or the stream broke: a list says which
			}
			if from, err = w.take(e, from); err != nil {
				return from, err
			}
		}
	}
}

// take puts one event into the cache and returns the revision that it is of.
func (w *watcher) take(e watch.Event, from string) (string, error) {
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return from, nil
	}
	switch e.Type {
	case watch.Added, watch.Modified:
		if err := w.cache.put(w.kind.name, o); err != nil {
			return from, err
		}
	case watch.Deleted:
		w.cache.drop(w.kind.name, o)
	}
	return o.GetResourceVersion(), nil
}

func goneOr(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return errGone
	}
	return err
}
