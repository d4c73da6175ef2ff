package supervise

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type journal struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (j *journal) add(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, s)
}

func (j *journal) unit(name string, fail error) Unit {
	return Unit{Name: name, Run: func(ctx context.Context, ready func()) error {
		j.add("start " + name)
		if fail != nil {
			return fail
		}
		ready()
		<-ctx.Done()
		j.add("stop " + name)
		return ctx.Err()
	}}
}

func TestRun(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name  string
		units func(*journal) []Unit
		want  []string
		err   error
	}{
		{"units start in order and stop in reverse", func(j *journal) []Unit {
			return []Unit{j.unit("a", nil), j.unit("b", nil), j.unit("c", nil)}
		}, []string{"start a", "start b", "start c", "stop c", "stop b", "stop a"}, nil},
		{"a unit that fails to start stops those before it and keeps those after it down", func(j *journal) []Unit {
			return []Unit{j.unit("a", nil), j.unit("b", broken), j.unit("c", nil)}
		}, []string{"start a", "start b", "stop a"}, broken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var j journal
				done := make(chan error, 1)
				go func() { done <- Run(ctx, slog.New(slog.DiscardHandler), tt.units(&j)...) }()
				synctest.Wait()
				cancel()
				if err := <-done; !errors.Is(err, tt.err) {
					t.Errorf("Run: %v, want %v", err, tt.err)
				}
				if !slices.Equal(j.lines, tt.want) {
					t.Errorf("got  %q\nwant %q", j.lines, tt.want)
				}
			})
		})
	}
}

func TestRunEndsWhenAnyUnitReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		finish := make(chan struct{})
		last := Unit{Name: "b", Run: func(ctx context.Context, ready func()) error {
			ready()
			<-finish
			return nil
		}}
		done := make(chan error, 1)
		go func() { done <- Run(t.Context(), slog.New(slog.DiscardHandler), j.unit("a", nil), last) }()
		synctest.Wait()
		close(finish)
		if err := <-done; err != nil {
			t.Errorf("Run: %v, want nil", err)
		}
		if want := []string{"start a", "stop a"}; !slices.Equal(j.lines, want) {
			t.Errorf("got %q, want %q", j.lines, want)
		}
	})
}
