package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Code says why a stream or a session was refused or ended. Codes travel; their numbers are fixed.
type Code uint8

// The codes. A peer may send one that is not listed.
const (
	CodeUnspecified   Code = 0
	CodeBadHeader     Code = 1  // the stream header could not be read
	CodeUnknownDevice Code = 2  // the core has no such device
	CodeExpired       Code = 3  // the device's time is over
	CodeLimit         Code = 4  // a limit of the device, of the session or of memory is reached
	CodeSuspended     Code = 5  // the member or the device is suspended
	CodeDraining      Code = 6  // the node takes no new streams
	CodeUnreachable   Code = 7  // the destination cannot be reached
	CodeTimeout       Code = 8  // the destination did not answer in time
	CodeRevoked       Code = 9  // an identity involved was revoked
	CodeProtocol      Code = 10 // the peer broke the protocol
	CodeGoingAway     Code = 11 // the session ends in good order
	CodeInternal      Code = 12 // a fault of the node itself
	CodeCanceled      Code = 13 // the opener no longer wants the stream
	CodePeerReset     Code = 14 // the TCP connection behind the stream was reset
	CodeLost          Code = 15 // never sent: the session died without a word
	CodeDenied        Code = 16 // the destination or the peer is not allowed
)

// String returns the code's word for logs and metrics.
func (c Code) String() string {
	names := [...]string{
		"unspecified", "bad_header", "unknown_device", "expired", "limit", "suspended", "draining",
		"unreachable", "timeout", "revoked", "protocol", "going_away", "internal", "canceled",
		"peer_reset", "lost", "denied",
	}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("code_%d", uint8(c))
}

// RefusedError says that a stream was refused before a byte was spent on it.
type RefusedError struct {
	Code      Code
	Retryable bool   // another core, or this one later, may accept
	Text      string // for people, at most 200 bytes, printable
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Text == "" {
		return "relay: stream refused: " + e.Code.String()
	}
	return "relay: stream refused: " + e.Code.String() + ": " + e.Text
}

// ResetError says that a stream, or the session that carried it, ended without the peer's FIN.
// As the cause of a context given to Session.Run or Join it chooses the code the peer is told.
type ResetError struct {
	Code Code
}

// Error implements error.
func (e *ResetError) Error() string { return "relay: stream reset: " + e.Code.String() }

const maxText = 200

// printable cuts text that came from outside down to what may stand in a log.
func printable(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}

// causeCode returns the code a context's cause asks for.
func causeCode(ctx context.Context, otherwise Code) Code {
	if e, ok := errors.AsType[*ResetError](context.Cause(ctx)); ok {
		return e.Code
	}
	return otherwise
}
