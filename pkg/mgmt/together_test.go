package mgmt

import (
	"context"
	"errors"
	"testing"
)

// Children that end because another one failed hide its error behind none of
// their own.
func TestTogetherTellsWhyItEnded(t *testing.T) {
	fault := errors.New("the port is in use")
	waits := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	if err := together(t.Context(), waits, func(context.Context) error { return fault }, waits); !errors.Is(err, fault) || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := together(ctx, waits, waits); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: got %v", err)
	}
}
