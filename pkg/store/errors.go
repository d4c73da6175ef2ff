package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// ErrCompacted ends a watch whose revision etcd no longer has: list again and
// watch from there.
var ErrCompacted = fmt.Errorf("store: the revision was compacted, list again: %w", mesh.ErrConflict)

// wrap is the one translation of etcd's errors. etcd's own error is printed and
// not kept in the chain: no caller may come to depend on it, and it would pass
// for a gRPC status of ours. what is "verb object".
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if mesh.Kind(err) != nil { // translated already
		return fmt.Errorf("store: %s: %w", what, err)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("store: %s: %w", what, context.Canceled)
	case errors.Is(err, rpctypes.ErrCompacted), errors.Is(err, rpctypes.ErrFutureRev):
		return fmt.Errorf("store: %s: %w", what, ErrCompacted)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return mesh.WithHint(fmt.Errorf("store: %s: etcd has reached its quota: %w", what, mesh.ErrUnavailable),
			"`meshctl mgmt status` shows sizes and alarms; changes are refused until space is recovered, client traffic goes on")
	case errors.Is(err, rpctypes.ErrTooManyOps), errors.Is(err, rpctypes.ErrRequestTooLarge):
		return fmt.Errorf("store: %s: too much in one change: %w", what, mesh.ErrInvalid)
	case transient(err):
		return mesh.WithHint(fmt.Errorf("store: %s: etcd does not answer (%v): %w", what, reason(err), mesh.ErrUnavailable),
			"it does when more than half of the management servers reach each other; `meshctl mgmt status` shows who is there; clients are served meanwhile")
	case code(err) == codes.PermissionDenied, code(err) == codes.Unauthenticated:
		return fmt.Errorf("store: %s: %v: %w", what, err, mesh.ErrDenied)
	}
	return fmt.Errorf("store: %s: %v", what, err)
}

func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "deadline exceeded"
	}
	return err.Error()
}

// transient says that the same request may succeed later. For a write it says
// nothing about whether it was made.
func transient(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, rpctypes.ErrTooManyRequests) {
		return true
	}
	switch code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted:
		return true
	}
	return false
}

// code is the gRPC code of an error of etcd's client, in either of its two forms.
func code(err error) codes.Code {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code()
	}
	return status.Code(err)
}
