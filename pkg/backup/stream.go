package backup

import (
	"fmt"
	"io"

	"filippo.io/age"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Seal returns a writer that encrypts to all recipients, of the form that
// ParseRecipient returns, and writes to w. What was written is complete once
// Close has returned. It returns ErrInvalid without recipients.
func Seal(w io.Writer, recipients ...string) (io.WriteCloser, error) {
	keys := make([]age.Recipient, 0, len(recipients))
	for _, text := range recipients {
		r, err := parseRecipient(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, r)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("backup: encrypt: nobody could read it, since there is no recipient: %w", mesh.ErrInvalid)
	}
	out, err := age.Encrypt(w, keys...)
	if err != nil {
		return nil, fmt.Errorf("backup: encrypt: %w", err)
	}
	return out, nil
}

// Open returns a reader of what Seal has encrypted.
func Open(r io.Reader, ids ...Identity) (io.Reader, error) {
	out, err := age.Decrypt(r, ids...)
	if err != nil {
		return nil, fmt.Errorf("backup: decrypt: %w", err)
	}
	return out, nil
}
