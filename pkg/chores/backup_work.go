package chores

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
)

// roundTime bounds a round whatever its parts say.
const roundTime = 2 * time.Hour

// pace is how fast backups go.
type pace struct {
	// look is how often a remote is asked what it holds while nothing changes.
	look time.Duration
	// After a failure a remote, or the clone, is left alone for a random time up to
	// a bound that doubles from first to most, and for half of first at least.
	first, most time.Duration
}

// usual is the pace in service.
func usual() pace { return pace{look: 10 * time.Minute, first: 4 * time.Second, most: 5 * time.Minute} }

// backuper makes backups while it is ordered to.
type backuper struct {
	server controlpb.ChoresClient
	tell   chan<- *controlpb.BackupOutcome
	pace   pace
	job    *backupJob // nil: none is ordered
}

// follow does as ordered from now on. When due or prove has risen and nothing
// else is new, what is under way goes on; otherwise it has ended when follow
// returns.
func (b *backuper) follow(ctx context.Context, o *controlpb.BackupOrder) {
	if b.job != nil && b.job.raise(o) {
		return
	}
	b.stop()
	if o != nil {
		b.job = b.start(ctx, o)
	}
}

func (b *backuper) stop() {
	if b.job != nil {
		b.job.stop()
		b.job = nil
	}
}

// backupJob is backups under one order. What is not said to be guarded belongs to
// the goroutine of run.
type backupJob struct {
	order  *controlpb.BackupOrder // without due and prove, which rise
	server controlpb.ChoresClient
	tell   chan<- *controlpb.BackupOutcome
	pace   pace
	woken  chan struct{}
	end    context.CancelFunc
	wg     sync.WaitGroup

	mu         sync.Mutex // guards the next line
	due, prove uint64

	drafted, proved uint64 // due and prove that have been done
	work            again  // in the clone, and the draft
	proof           again
	remotes         []*remote
}

// again says when to try something that may have failed.
type again struct {
	first time.Duration
	back  control.Backoff
	fails int
	next  time.Time // not before then; zero: at once
}

func (p pace) again() again {
	return again{first: p.first, back: control.Backoff{Min: p.first, Max: p.most}}
}

func (a *again) due(now time.Time) bool { return !now.Before(a.next) }

// went notes how it went, and when to do it the next time after a success.
func (a *again) went(ok bool, then time.Time) {
	if ok {
		a.back.Reset()
		a.fails, a.next = 0, then
		return
	}
	a.fails++
	a.next = time.Now().Add(a.first/2 + a.back.Next())
}

func (b *backuper) start(ctx context.Context, o *controlpb.BackupOrder) *backupJob {
	j := &backupJob{order: fixed(o), server: b.server, tell: b.tell, pace: b.pace, woken: make(chan struct{}, 1), work: b.pace.again(), proof: b.pace.again()}
	for _, r := range o.GetRemotes() {
		j.remotes = append(j.remotes, &remote{order: r, again: b.pace.again()})
	}
	ctx, j.end = context.WithCancel(ctx)
	j.raise(o)
	j.wg.Go(func() { j.run(ctx) })
	return j
}

// fixed is an order without what may rise.
func fixed(o *controlpb.BackupOrder) *controlpb.BackupOrder {
	out := proto.CloneOf(o)
	out.Due, out.Prove = 0, 0
	return out
}

// raise takes note of what is asked for now. It returns false for another order.
func (j *backupJob) raise(o *controlpb.BackupOrder) bool {
	if o == nil || !proto.Equal(fixed(o), j.order) {
		return false
	}
	j.mu.Lock()
	j.due, j.prove = o.GetDue(), o.GetProve()
	j.mu.Unlock()
	select {
	case j.woken <- struct{}{}:
	default: // it will look
	}
	return true
}

func (j *backupJob) asked() (due, prove uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.due, j.prove
}

func (j *backupJob) stop() {
	j.end()
	j.wg.Wait()
}

func (j *backupJob) run(ctx context.Context) {
	for ctx.Err() == nil {
		if d := time.Until(j.next(time.Now())); d > 0 {
			j.sleep(ctx, d)
			continue
		}
		out := j.guarded(ctx)
		select {
		case j.tell <- out:
		case <-ctx.Done():
		}
	}
}

// next is when there is something to do, unless it is woken before.
func (j *backupJob) next(now time.Time) time.Time {
	due, prove := j.asked()
	at := now.Add(j.pace.look)
	if due == 0 && prove == 0 {
		return at
	}
	for _, r := range j.remotes {
		at = earlier(at, r.again.next)
	}
	if due > j.drafted {
		at = earlier(at, j.work.next)
	}
	if prove > j.proved {
		at = earlier(at, j.proof.next)
	}
	// While the clone cannot be used, nothing can be done at all.
	if j.work.fails > 0 && at.Before(j.work.next) {
		return j.work.next
	}
	return at
}

func (j *backupJob) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-j.woken:
	}
}

// guarded does a round. If a library panics in it, that is how it went.
func (j *backupJob) guarded(ctx context.Context) (out *controlpb.BackupOutcome) {
	ctx, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	r := j.newRound()
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "panic in a backup: %v\n%s", p, debug.Stack())
			r.stop = fmt.Errorf("chores: panic in a backup: %v", p)
			r.finish()
			out = r.out
		}
	}()
	r.run(ctx)
	return r.out
}
