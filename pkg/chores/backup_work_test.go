package chores

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestWhenThereIsSomethingToDo(t *testing.T) {
	now := time.Now()
	in := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		name string
		job  func(*backupJob)
		want int // seconds
	}{
		{"nothing was ever asked for", func(j *backupJob) { j.due = 0 }, 60},
		{"the first commit", func(*backupJob) {}, 0},
		{"all is done", func(j *backupJob) { j.drafted = 1; j.remotes[0].again.next = in(20); j.remotes[1].again.next = in(30) }, 20},
		{"a remote failed", func(j *backupJob) {
			j.drafted = 1
			j.remotes[0].again = again{fails: 1, next: in(5)}
			j.remotes[1].again.next = in(30)
		}, 5},
		{"something new while a remote is left alone", func(j *backupJob) { j.remotes[0].again = again{fails: 1, next: in(5)} }, 0},
		{"the clone failed", func(j *backupJob) { j.work = again{fails: 1, next: in(9)} }, 9},
		{"a proof", func(j *backupJob) {
			j.drafted, j.prove = 1, 1
			j.remotes[0].again.next, j.remotes[1].again.next = in(20), in(20)
		}, 0},
		{"a proof that failed", func(j *backupJob) {
			j.drafted, j.prove = 1, 1
			j.proof = again{fails: 1, next: in(7)}
			j.remotes[0].again.next, j.remotes[1].again.next = in(20), in(20)
		}, 7},
	} {
		j := &backupJob{pace: brisk(), due: 1, remotes: []*remote{{}, {}}}
		c.job(j)
		if got := max(0, j.next(now).Sub(now)); got != time.Duration(c.want)*time.Second {
			t.Errorf("%s: in %v, want %d s", c.name, got, c.want)
		}
	}
}

func TestTriesBecomeRarer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := usual().again()
		began, tries := time.Now(), 0
		for time.Since(began) < time.Hour {
			tries++
			a.went(false, time.Time{})
			time.Sleep(time.Until(a.next))
		}
		if tries < 12 || tries > 80 {
			t.Errorf("%d tries in an hour", tries)
		}
		a.went(true, time.Now().Add(time.Minute))
		if a.fails != 0 || time.Until(a.next) != time.Minute {
			t.Errorf("after a success: %+v", a)
		}
	})
}

func TestWhatStandsStillEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := withStall(t.Context())
		defer s.end()
		for range 10 {
			time.Sleep(stallTime - time.Second)
			s.moved(stallTime)
		}
		if ctx.Err() != nil {
			t.Fatal("it ended although it moved")
		}
		<-ctx.Done()
		if err := fault(ctx, errors.New("x")); failureClass(drafting(err)) != controlpb.BackupOutcome_TIMEOUT {
			t.Errorf("%v", err)
		}
	})
}

func TestTagsHaveThePeriodForAName(t *testing.T) {
	at := time.Date(2026, 11, 30, 23, 59, 58, 0, time.FixedZone("", 3600))
	for _, c := range []struct {
		every time.Duration
		want  string
	}{
		{24 * time.Hour, "backup/2026-11-30"},
		{time.Hour, "backup/2026-11-30T220000Z"},
		{time.Second, "backup/2026-11-30T225958Z"},
	} {
		if got := tagName(at, c.every); got != c.want || only(refName, got) != got {
			t.Errorf("%v: %s, want %s", c.every, got, c.want)
		}
	}
}

func TestWhatIsReportedOfAnError(t *testing.T) {
	for _, c := range []struct {
		err   error
		want  BackupFailure
		whole bool
	}{
		{nil, "", false},
		{fmt.Errorf("write: %w", syscall.ENOSPC), FailDiskFull, true},
		{local(fmt.Errorf("write: %w", syscall.ENOSPC)), FailDiskFull, true},
		{local(errors.New("x")), FailClone, true},
		{local(fmt.Errorf("write: %w", context.Canceled)), FailOther, false},
		{&repo.Fault{Reason: repo.ReasonDamaged, Err: errors.New("x")}, FailClone, true},
		{&repo.Fault{Reason: repo.ReasonHostile, Err: errors.New("x")}, FailDamaged, false},
		{&repo.Fault{Reason: repo.ReasonLimit, Err: errors.New("x")}, FailDamaged, false},
		{&repo.Fault{Reason: repo.ReasonNoGit, Err: errors.New("x")}, FailNoGit, false},
		{&repo.Fault{Reason: repo.ReasonRefused, Err: mesh.ErrDenied}, FailRefused, false},
		{fmt.Errorf("push: %w", context.DeadlineExceeded), FailTimeout, false},
		{drafting(fmt.Errorf("x: %w", mesh.ErrDenied)), FailDenied, true},
		{drafting(errors.New("x")), FailDraft, true},
		{errStale, FailStale, true},
		{errors.New("x"), FailOther, false},
	} {
		if got := failureOf(failureClass(c.err)); got != c.want || whole(c.err) != c.whole {
			t.Errorf("%v: %q, whole %v; want %q", c.err, got, whole(c.err), c.want)
		}
	}
}
