package identity

import (
	"crypto/x509"
	"os"
	"syscall"
	"time"
)

// FailAt lets every step of writing from the n-th on (0 is the first) fail, as
// if the machine had gone away.
func (f *Folder) FailAt(n int, err error) { f.step = failAt(n, err) }

// KillAt kills this process before the n-th step of writing (0 is the first).
func (f *Folder) KillAt(n int) {
	f.step = func(string) error {
		if n--; n >= 0 {
			return nil
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		select {} // it comes in a moment
	}
}

// FailAt is Folder.FailAt for revocations.
func (r *Revocations) FailAt(n int, err error) { r.step = failAt(n, err) }

// SetMax bounds the records.
func (r *Revocations) SetMax(n int) { r.max = n }

// SetNow sets the clock.
func (r *Revocations) SetNow(now func() time.Time) { r.now = now }

// SetNow sets the clock.
func (f *Folder) SetNow(now func() time.Time) { f.now = now }

func failAt(n int, err error) func(string) error {
	return func(string) error {
		n--
		if n < 0 {
			return err
		}
		return nil
	}
}

// IdentityOf is for fuzzing.
func IdentityOf(leaf *x509.Certificate) (string, error) {
	id, err := identityOf(leaf)
	return id.String(), err
}

// ParseRevocation is for fuzzing.
var ParseRevocation = parseRevocation
