package repo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Reason is why something with a repository failed, in a word that holds
// nothing from outside.
type Reason string

// Reasons.
const (
	ReasonName       Reason = "name"        // the host's name does not resolve
	ReasonConnection Reason = "connection"  // no connection, or it broke
	ReasonTLS        Reason = "tls"         // the server's certificate does not hold
	ReasonHostKey    Reason = "host-key"    // unknown, or another than before
	ReasonAuth       Reason = "auth"        // credentials refused, or missing
	ReasonMissing    Reason = "missing"     // no such repository, branch or object
	ReasonRefused    Reason = "refused"     // the server refuses the push: protected, a hook, full
	ReasonForeign    Reason = "not-forward" // the remote's head is not in our history
	ReasonTimeout    Reason = "timeout"
	ReasonDiskFull   Reason = "disk-full"
	ReasonDamaged    Reason = "damaged" // the local clone
	ReasonLimit      Reason = "limit"   // larger than allowed
	ReasonFormat     Reason = "format"  // SHA-256, or nothing that we understand
	ReasonHostile    Reason = "hostile" // paths or entries that nobody needs
	ReasonNoGit      Reason = "no-git"  // a local path wants the git program
	ReasonCancelled  Reason = "cancelled"
	ReasonOther      Reason = "other"
)

// Fault is an error with its reason.
type Fault struct {
	Reason Reason
	Err    error
	// Fingerprint is of the host key that was met, with ReasonHostKey.
	Fingerprint string
}

func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// faultf makes a Fault.
func faultf(r Reason, format string, args ...any) error {
	return &Fault{Reason: r, Err: fmt.Errorf("repo: "+format, args...)}
}

// ReasonOf returns why, "" for nil.
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Reason
	}
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return ReasonDiskFull
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return ReasonTimeout
	case errors.Is(err, context.Canceled):
		return ReasonCancelled
	case errors.As(err, &dns):
		return ReasonName
	case errors.As(err, &op):
		return ReasonConnection
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, mesh.ErrNotFound):
		return ReasonMissing
	default:
		return ReasonOther
	}
}
