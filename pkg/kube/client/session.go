package client

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
)

// session is the work with one connection. All of it is in one goroutine; only the
// cache is filled by others.
type session struct {
	keeper  *Keeper
	applier *applier
	cache   *cache
	pace    pace

	work     kube.Work
	wanted   []wanted
	standing map[string]*standing // by Kind/name
	drift    []string             // since the last report
	swept    []string             // since the last report, while nothing is wanted
	cleared  bool                 // nothing of ours was left when it was last listed
	stale    bool
	broken   error // why the last pass ended early, or the objects cannot be read
	retry    backoff
	due      time.Time // of the next pass, when the last one failed
	troubled bool      // the watches could not look, when last asked

	version   string
	spaceUID  string    // of the namespace
	unguarded bool      // the namespace lets in what it should not
	lookedAt  time.Time // when these were asked for
	progress  progress
	lines     lines
	told      kube.Observation
	toldAt    time.Time
}

func newSession(k *Keeper, c *conn, w kube.Work) *session {
	s := &session{
		keeper: k, cache: newCache(), pace: k.pace, standing: make(map[string]*standing),
		applier: &applier{conn: c, owner: owner{w.Mesh, w.Cluster}, took: k.pace.request},
		retry:   backoff{min: k.pace.min, max: k.pace.max},
	}
	s.take(w)
	return s
}

// take begins with new work on the same connection.
func (s *session) take(w kube.Work) {
	if w.Epoch != s.work.Epoch {
		s.stale = false
	}
	s.work, s.applier.epoch = w, w.Epoch
	s.wanted, s.broken = want(w.Objects, w.API.Namespace, w.Epoch)
	s.due, s.cleared = time.Time{}, false
	s.retry.reset()
}

// same says whether the work can go on here.
func (s *session) same(w kube.Work) bool {
	return w.API == s.work.API && w.Cluster == s.work.Cluster && w.Mesh == s.work.Mesh
}

// run looks, puts right and reports whenever something is different.
func (s *session) run(ctx context.Context, news <-chan struct{}) {
	beat := time.NewTicker(min(s.pace.beat, s.pace.again) / 4)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-news:
			w, _ := s.keeper.latest()
			if !s.same(*w) {
				return
			}
			s.take(*w)
		case <-s.cache.changed:
			gather(ctx, s.pace.gather)
		case <-beat.C:
		case <-s.dueIn():
		}
		s.round(ctx)
	}
}

// dueIn fires when a pass that failed is to be tried again.
func (s *session) dueIn() <-chan time.Time {
	if s.due.IsZero() {
		return nil
	}
	return time.After(time.Until(s.due))
}

// gather waits for changes that come together.
func gather(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (s *session) round(ctx context.Context) {
	if !s.cache.ready() {
		return
	}
	troubled := len(s.cache.trouble()) > 0
	if s.troubled && !troubled { // the API is back: no reason to wait for it any longer
		s.due = time.Time{}
		s.retry.reset()
	}
	s.troubled = troubled
	if s.due.IsZero() || !time.Now().Before(s.due) {
		s.tryPass(ctx)
	}
	o := s.observe(ctx)
	if ctx.Err() == nil {
		s.report(o)
	}
}

// tryPass puts right what can be, and says when to try the rest.
func (s *session) tryPass(ctx context.Context) {
	if s.stale || s.wanted == nil && s.broken != nil {
		return
	}
	err := s.look(ctx)
	if err == nil {
		err = s.pass(ctx)
	}
	if errors.Is(err, errStale) {
		s.stale, err = true, nil
	}
	s.broken, s.due = err, time.Time{}
	if err == nil {
		s.retry.reset()
		return
	}
	s.due = time.Now().Add(s.retry.next(err))
}

// look asks now and then for the version, an answer that needs no right at all, and
// whether the namespace still refuses what it should.
func (s *session) look(ctx context.Context) error {
	if time.Since(s.lookedAt) < s.pace.fullLook {
		return nil
	}
	bounded, cancel := s.applier.limit(ctx)
	defer cancel()
	v, err := s.applier.version(bounded)
	if err != nil && !isOwn(err) {
		return err
	}
	uid, guarded, err := s.applier.space(ctx)
	if err != nil && !isOwn(err) {
		return err
	}
	s.spaceUID = uid
	s.unguarded = err == nil && !guarded
	s.version, s.lookedAt = v, time.Now()
	return nil
}

func (s *session) report(o kube.Observation) {
	same := o
	same.At = s.told.At
	if reflect.DeepEqual(same, s.told) && time.Since(s.toldAt) < s.pace.beat {
		return
	}
	s.told, s.toldAt, s.drift, s.swept = o, time.Now(), nil, nil
	s.told.Drift, s.told.Swept = nil, nil
	s.keeper.Report(o)
}

func now() time.Time { return time.Now().UTC() }
