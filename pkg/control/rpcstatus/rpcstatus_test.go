package rpcstatus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestKindTextAndHintSurvive(t *testing.T) {
	for _, kind := range []error{mesh.ErrInvalid, mesh.ErrNotFound, mesh.ErrExists, mesh.ErrConflict, mesh.ErrUnavailable, mesh.ErrDenied, context.DeadlineExceeded} {
		sent := mesh.WithHint(fmt.Errorf("store: get cores/x: %w", kind), "look again")
		got := rpcstatus.From(rpcstatus.To(sent))
		if !errors.Is(got, kind) || got.Error() != sent.Error() || mesh.Hint(got) != "look again" {
			t.Errorf("%v: got %v, hint %q", kind, got, mesh.Hint(got))
		}
	}
}

func TestWhatIsNoErrorOrNoStatusStaysAsItIs(t *testing.T) {
	own := errors.New("own")
	if rpcstatus.To(nil) != nil || rpcstatus.From(nil) != nil || rpcstatus.From(own) != own {
		t.Error("changed")
	}
	st := status.Error(codes.PermissionDenied, "no")
	if rpcstatus.To(st) != st {
		t.Error("a status was changed")
	}
}

func TestCodesThatOnlyGRPCKnows(t *testing.T) {
	for code, kind := range map[codes.Code]error{
		codes.Unauthenticated: mesh.ErrDenied, codes.ResourceExhausted: mesh.ErrUnavailable, codes.Unimplemented: mesh.ErrUnavailable,
	} {
		if got := rpcstatus.From(status.Error(code, "x")); !errors.Is(got, kind) {
			t.Errorf("%v: got %v", code, got)
		}
	}
}
