package telegram

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Failure is why a call failed, as far as the caller acts differently.
type Failure int

// Failures.
const (
	Network  Failure = iota + 1 // no answer
	Server                      // an answer that is the API's fault: 5xx, or not JSON
	Token                       // the API does not know the token
	Conflict                    // somebody else polls with the same token
	Limited                     // to be left alone for RetryAfter
	Refused                     // the call can never succeed as it is
	Gone                        // the chat does not take messages of this bot's, or is no more
)

// Error is what the API answered, or that it did not. Nothing of the token, of an
// address or of a proxy is in it.
type Error struct {
	Failure     Failure
	Code        int // of the API, or of HTTP; 0: no answer
	Description string
	RetryAfter  time.Duration // with Limited
}

func (e *Error) Error() string {
	if e.Code == 0 {
		return "telegram: " + e.Description
	}
	return fmt.Sprintf("telegram: %s (%d)", e.Description, e.Code)
}

// FailureOf returns why err came about, 0 when it is none of a call's.
func FailureOf(err error) Failure {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Failure
	}
	return 0
}

// RetryAfter returns for how long the API wants to be left alone, 0 when it did
// not say.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// maxWait is the longest that is believed of a retry_after, maxDescription how
// many bytes are kept of a description.
const (
	maxWait        = time.Hour
	maxDescription = 200
)

// answer is how every answer of the API begins.
type answer struct {
	OK          bool   `json:"ok"`
	Code        int    `json:"error_code"`
	Description string `json:"description"`
	Parameters  struct {
		RetryAfter float64 `json:"retry_after"`
	} `json:"parameters"`
}

// failed is the error of an answer that is not OK.
func (a answer) failed(status int) *Error {
	e := &Error{Code: a.Code, Description: a.Description}
	if e.Code == 0 {
		e.Code = status
	}
	if len(e.Description) > maxDescription {
		e.Description = strings.ToValidUTF8(e.Description[:maxDescription], "")
	}
	switch {
	case e.Code == http.StatusTooManyRequests:
		e.Failure = Limited
		e.RetryAfter = time.Duration(min(max(a.Parameters.RetryAfter, 1), maxWait.Seconds()) * float64(time.Second))
	case e.Code == http.StatusConflict:
		e.Failure = Conflict
	case e.Code == http.StatusUnauthorized, e.Code == http.StatusNotFound:
		e.Failure = Token
	case e.Code == http.StatusForbidden, e.says("chat not found"), e.says("user is deactivated"), e.says("PEER_ID_INVALID"):
		e.Failure = Gone
	case e.Code >= 500 || e.Code < 400:
		e.Failure = Server
	default:
		e.Failure = Refused
	}
	return e
}

func (e *Error) says(words string) bool { return strings.Contains(e.Description, words) }

// says reports whether err is the API's, with these words.
func says(err error, words string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.says(words)
}
