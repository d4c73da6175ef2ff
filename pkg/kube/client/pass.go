package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
)

// standing is what is known of one object that is wanted.
type standing struct {
	hash  [sha256.Size]byte // what was applied, or tried
	epoch kube.Epoch
	good  any       // the fields that we own, as they were after that; nil: never
	err   error     // why it is not as it should be
	until time.Time // it is not tried again before, unless something changed
	mark  int64     // the generation that it had then, as the watch saw it; 0: none did
	seen  time.Time // when it was last read; for what no watch shows
	puts  []time.Time
}

// pass makes everything as it should be. It returns an error when the rest is to be
// tried later.
func (s *session) pass(ctx context.Context) error {
	if err := s.prune(ctx, func(k kind) bool { return k.name == "HorizontalPodAutoscaler" }); err != nil {
		return err
	}
	for _, w := range s.wanted {
		if err := s.ensure(ctx, w); err != nil {
			return err
		}
	}
	s.forget()
	if err := s.prune(ctx, func(kind) bool { return true }); err != nil {
		return err
	}
	return s.clear(ctx)
}

// forget drops what is known of objects that are not wanted any more.
func (s *session) forget() {
	for key := range s.standing {
		if !slices.ContainsFunc(s.wanted, func(w wanted) bool { return w.key() == key }) {
			delete(s.standing, key)
		}
	}
}

// ensure makes one object as it should be. What only concerns this object is kept in
// its standing; an error is about all of them.
func (s *session) ensure(ctx context.Context, w wanted) error {
	st := s.standing[w.key()]
	if st == nil {
		st = &standing{}
		s.standing[w.key()] = st
	}
	if st.hash != w.hash || st.epoch != s.work.Epoch {
		*st = standing{hash: w.hash, epoch: s.work.Epoch, puts: st.puts}
	}
	live, known := s.cache.get(w.kind.name, w.GetName())
	if !st.needs(live, known, s.pace) {
		return nil
	}
	now, before, err := s.applier.apply(ctx, w, st.good, st.fights(s.pace))
	if err != nil {
		return s.sort(st, live, err)
	}
	if st.good != nil && now != before {
		st.puts = append(st.puts, time.Now())
		s.drift = append(s.drift, drifted(w, before))
	}
	st.good, st.err, st.seen = owned(now, manager), nil, time.Now()
	return nil
}

// drifted says what others had done.
func drifted(w wanted, before *unstructured.Unstructured) string {
	if before == nil {
		return w.key() + " was deleted"
	}
	return w.key() + " was changed"
}

// needs says whether an object is to be looked at. live is nil when there is none, or
// (not known) nobody could see it.
func (st *standing) needs(live *unstructured.Unstructured, known bool, p pace) bool {
	isGood := st.good != nil && live != nil && reflect.DeepEqual(owned(live, manager), st.good)
	if st.err != nil {
		return !time.Now().Before(st.until) || known && markOf(live) != st.mark || isGood
	}
	if !known {
		return st.good == nil || time.Since(st.seen) > p.fullLook
	}
	return !isGood
}

// fights says whether the object was put right too often of late.
func (st *standing) fights(p pace) bool {
	st.puts = slices.DeleteFunc(st.puts, func(t time.Time) bool { return time.Since(t) > p.fightFor })
	return len(st.puts) >= p.fight
}

func (st *standing) fail(err error, live *unstructured.Unstructured, until time.Time) {
	st.err, st.until, st.mark = err, until, markOf(live)
}

// markOf is a number that changes when an object comes, goes or gets other contents;
// what has no generation only comes and goes.
func markOf(live *unstructured.Unstructured) int64 {
	if live == nil {
		return 0
	}
	return live.GetGeneration() + 1
}

// sort keeps what concerns one object, and returns what concerns all.
func (s *session) sort(st *standing, live *unstructured.Unstructured, err error) error {
	_, conflict := errors.AsType[*conflictError](err)
	switch {
	case errors.Is(err, errStale):
		return err
	case errors.Is(err, errFight):
		st.fail(err, live, st.puts[0].Add(s.pace.fightFor))
		return nil
	case conflict, errors.Is(err, errForeign), errors.Is(err, errEnding), isOwn(err):
		st.fail(err, live, time.Now().Add(s.pace.again))
		return nil
	}
	return err
}

// isOwn: the API's answer is about one object.
func isOwn(err error) bool {
	s, ok := errors.AsType[*apierrors.StatusError](err)
	code := 0
	if ok {
		code = int(s.ErrStatus.Code)
	}
	return code >= 400 && code < 500 && code != http.StatusUnauthorized && code != http.StatusTooManyRequests
}

// problem is the standing's error for people.
func (st *standing) problem(key string) string {
	switch {
	case errors.Is(st.err, errForeign):
		return key + ": there is one that is not ours; it was left alone"
	case errors.Is(st.err, errEnding):
		return key + ": it is being deleted, and made again when it is gone"
	}
	_, detail := failure(st.err)
	return fmt.Sprintf("%s: %s", key, detail)
}
