package mesh

import (
	"errors"
	"fmt"
	"testing"
)

func TestPlain(t *testing.T) {
	for want, err := range map[string]error{
		"address 10.0.0.1 is private":                              fmt.Errorf("mesh: address 10.0.0.1 is private: %w", ErrDenied),
		"/x has mode 0644, want 0600":                              fmt.Errorf("identity: /x has mode 0644, want 0600: %w", ErrInvalid),
		"no server answers":                                        WithHint(fmt.Errorf("no server answers: %w", ErrUnavailable), "start one"),
		`find member "x": not found`:                               fmt.Errorf("store: find member \"x\": %w", ErrNotFound),
		"address 10.0.0.1 is private; address 10.0.0.2 is private": errors.Join(fmt.Errorf("mesh: address 10.0.0.1 is private: %w", ErrDenied), fmt.Errorf("mesh: address 10.0.0.2 is private: %w", ErrDenied)),
		"dial tcp 10.0.0.1:80: connect: connection refused":        errors.New("dial tcp 10.0.0.1:80: connect: connection refused"),
		"denied": ErrDenied,
	} {
		if got := Plain(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}
