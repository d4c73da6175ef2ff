package entry

import (
	"errors"

	"github.com/meshctl/meshctl/pkg/clienthello"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// Reason says in one stable word how a connection ended; logs and metrics use it.
type Reason string

// Before the name was known.
const (
	NotTLS       Reason = Reason(clienthello.NotTLS)
	HelloTooBig  Reason = Reason(clienthello.TooBig)
	NoSNI        Reason = Reason(clienthello.NoSNI)
	BadHello     Reason = Reason(clienthello.BadHello)
	BadProxy     Reason = "bad_proxy"     // a trusted peer's PROXY header is damaged or missing
	HelloTimeout Reason = "hello_timeout" // not complete in time
	ClientGone   Reason = "client_gone"   // the client ended it first
	BadSNI       Reason = "bad_sni"       // not a host name
)

// Limits.
const (
	LimitTotal  Reason = "limit_total"
	LimitSource Reason = "limit_source"
	LimitDevice Reason = "limit_device"
	LimitHellos Reason = "limit_hellos" // it was the one that had waited longest
)

// Of the name.
const (
	UnknownSuffix Reason = "unknown_suffix" // not asked for
	NoRoute       Reason = "no_route"
	NoMgmt        Reason = "no_mgmt"       // no management server answered and no last answer holds
	LookupFailed  Reason = "lookup_failed" // this entry may not ask, or the answer is not readable
	Expired       Reason = "expired"
)

// Of the way to a core.
const (
	NoCore  Reason = "no_core" // no target, or none could be reached
	Refused Reason = "refused" // by a core; its code is in refusals_total
	Timeout Reason = "timeout" // no core answered in time
)

// After bytes had passed.
const (
	Done     Reason = "done"     // both sides were done
	Reset    Reason = "reset"    // one side broke
	Cut      Reason = "cut"      // the drain's limit was reached
	Internal Reason = "internal" // a fault of this program
)

// ofHello names why there is no usable hello.
func ofHello(err error) Reason {
	if e, ok := errors.AsType[*clienthello.Error](err); ok {
		return Reason(e.Reason)
	}
	if e, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && e.Timeout() {
		return HelloTimeout
	}
	return ClientGone
}

func ofLookup(err error) Reason {
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		return NoRoute
	case errors.Is(err, mesh.ErrUnavailable):
		return NoMgmt
	}
	return LookupFailed
}

// ofEnd names how a relayed connection ended.
func ofEnd(err error) Reason {
	e, isReset := errors.AsType[*relay.ResetError](err)
	switch {
	case err == nil:
		return Done
	case errors.Is(err, errDrained):
		return Cut
	case isReset && e.Code == relay.CodeExpired:
		return Expired
	}
	return Reset
}
