// Package rpcstatus carries the kinds of error of pkg/mesh over gRPC: kind, text
// and hint of an error survive the way from server to caller.
package rpcstatus

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/mesh"
)

var kinds = []struct {
	kind error
	code codes.Code
}{
	{mesh.ErrInvalid, codes.InvalidArgument},
	{mesh.ErrNotFound, codes.NotFound},
	{mesh.ErrExists, codes.AlreadyExists},
	{mesh.ErrConflict, codes.FailedPrecondition},
	{mesh.ErrUnavailable, codes.Unavailable},
	{mesh.ErrDenied, codes.PermissionDenied},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
}

// To turns an error into a gRPC status that keeps kind, text and hint.
// An error without a kind is Internal; its text is kept, since the callers
// are the operators who mend it.
func To(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Internal
	for _, k := range kinds {
		if errors.Is(err, k.kind) {
			code = k.code
			break
		}
	}
	st := status.New(code, err.Error())
	if hint := mesh.Hint(err); hint != "" {
		if with, e := st.WithDetails(&errdetails.LocalizedMessage{Locale: "en", Message: hint}); e == nil {
			st = with
		}
	}
	return st.Err()
}

// RemoteError is what a server answered.
type RemoteError struct {
	Text string
	kind error
}

func (e *RemoteError) Error() string { return e.Text }

// Unwrap returns the kind, or nil.
func (e *RemoteError) Unwrap() error { return e.kind }

// From is the inverse of To.
func From(err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	out := error(&RemoteError{Text: st.Message(), kind: kindOf(st.Code())})
	for _, d := range st.Details() {
		if m, ok := d.(*errdetails.LocalizedMessage); ok {
			out = mesh.WithHint(out, m.GetMessage())
		}
	}
	return out
}

func kindOf(c codes.Code) error {
	switch c {
	case codes.Unauthenticated:
		return mesh.ErrDenied
	case codes.ResourceExhausted:
		return mesh.ErrUnavailable
	case codes.Unimplemented:
		return fmt.Errorf("the server does not know this method: %w", mesh.ErrUnavailable)
	}
	for _, k := range kinds {
		if k.code == c {
			return k.kind
		}
	}
	return nil
}
