package clienthello

import "fmt"

// Reason says in one stable word why a hello was refused; logs and metrics use it.
type Reason string

// The reasons.
const (
	NotTLS   Reason = "not_tls"       // the first bytes are no TLS handshake record
	TooBig   Reason = "hello_too_big" // beyond MaxMessage or MaxRaw
	NoSNI    Reason = "no_sni"        // a well-formed hello without a server name
	BadHello Reason = "bad_hello"     // TLS, but not a well-formed ClientHello
)

// Error is a refusal of what the client sent.
type Error struct {
	Reason Reason
	Detail string // for people; holds no byte of the client's
}

// Error implements error.
func (e *Error) Error() string { return "clienthello: " + string(e.Reason) + ": " + e.Detail }

func refuse(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}
