package mesh

import (
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"strings"
)

const redacted = "[redacted]"

// Secret is text that must reach neither logs nor errors. Every way of
// printing it redacts; Reveal is the one way to the text.
type Secret string

// NewSecret returns bytes of randomness as unpadded base64url text.
func NewSecret(bytes int) Secret {
	b := make([]byte, bytes)
	rand.Read(b) // never fails (crypto/rand)
	return Secret(base64.RawURLEncoding.EncodeToString(b))
}

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string   { return redacted }
func (s Secret) GoString() string { return redacted }

// LogValue redacts in slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText redacts in JSON and YAML: a secret never becomes part of a
// stored or printed object by accident.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// SealedPrefix begins every sealed value, so that redaction can find it in any
// JSON without knowing the type.
const SealedPrefix = "sealed:v1:"

// Sealed is a secret field at rest: ciphertext under the mesh data key, bound
// to the place it is stored in. Only pkg/store makes and opens it.
type Sealed string

func (s Sealed) String() string { return redacted }

// LogValue redacts in slog.
func (s Sealed) LogValue() slog.Value { return slog.StringValue(redacted) }

// Redact replaces every sealed value, and every identity that only a passphrase
// protects, inside a decoded JSON value (maps, slices, strings) and returns the
// result; v itself may be changed.
func Redact(v any) any {
	switch t := v.(type) {
	case string:
		if strings.HasPrefix(t, SealedPrefix) || strings.HasPrefix(t, protectedPrefix) {
			return redacted
		}
	case map[string]any:
		for k, e := range t {
			t[k] = Redact(e)
		}
	case []any:
		for i, e := range t {
			t[i] = Redact(e)
		}
	}
	return v
}
