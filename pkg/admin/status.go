package admin

import "github.com/meshctl/meshctl/pkg/control/rpcstatus"

// RemoteError is what a server answered.
type RemoteError = rpcstatus.RemoteError

// ToStatus turns an error into a gRPC status that keeps kind, text and hint.
func ToStatus(err error) error { return rpcstatus.To(err) }

// FromStatus is the inverse of ToStatus.
func FromStatus(err error) error { return rpcstatus.From(err) }
