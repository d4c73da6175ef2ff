package mesh

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"
)

// Token is the record of a join token. The secret itself is never stored.
type Token struct {
	ID      TokenID   `json:"id"`
	Hash    string    `json:"hash"` // base64url(SHA-256(secret))
	Role    Role      `json:"role"`
	Name    string    `json:"name,omitzero"` // label for the node that joins
	Member  MemberID  `json:"member,omitzero"`
	Cell    CellID    `json:"cell,omitzero"`
	Grant   AdminRole `json:"grant,omitzero"`
	Created time.Time `json:"created"`
	By      string    `json:"by"`
	Expires time.Time `json:"expires"`
	Revoked bool      `json:"revoked,omitzero"`
	Used    *TokenUse `json:"used,omitzero"`
}

// TokenUse is the one use of a token.
type TokenUse struct {
	Node    string    `json:"node"` // role/id it became
	KeyHash string    `json:"keyHash"`
	From    string    `json:"from"`
	At      time.Time `json:"at"`
}

// TokenState is what a token's record amounts to at some time.
type TokenState string

// Token states.
const (
	TokenUnused  TokenState = "unused"
	TokenUsed    TokenState = "used"
	TokenExpired TokenState = "expired"
	TokenRevoked TokenState = "revoked"
)

// State returns the token's state at now.
func (t Token) State(now time.Time) TokenState {
	switch {
	case t.Revoked:
		return TokenRevoked
	case t.Used != nil:
		return TokenUsed
	case !now.Before(t.Expires):
		return TokenExpired
	}
	return TokenUnused
}

// HashTokenSecret is what a token's record keeps of its secret.
func HashTokenSecret(s Secret) string {
	sum := sha256.Sum256([]byte(s.Reveal()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Matches says in constant time whether s is the token's secret.
func (t Token) Matches(s Secret) bool {
	return subtle.ConstantTimeCompare([]byte(t.Hash), []byte(HashTokenSecret(s))) == 1
}

// JoinToken is everything a new node needs: where to go, whom to trust, and
// the one-time secret. Its text form is a secret.
type JoinToken struct {
	Addresses []string // host:port of mgmt; names are resolved at each dial
	RootHash  [32]byte // SHA-256 of the root certificate's DER
	ID        TokenID
	Secret    Secret
}

const (
	tokenPrefix  = "meshctl1."
	maxTokenLen  = 4096
	maxTokenAddr = 16
)

type tokenBody struct {
	Addresses []string `json:"a"`
	Root      []byte   `json:"r"`
	ID        string   `json:"i"`
	Secret    string   `json:"s"`
}

// Encode returns the one string that alone suffices to join.
func (t JoinToken) Encode() Secret {
	body, err := json.Marshal(tokenBody{t.Addresses, t.RootHash[:], string(t.ID), t.Secret.Reveal()})
	if err != nil {
		panic(err) // strings and bytes always marshal
	}
	return Secret(tokenPrefix + b64(body) + "." + b64(tokenSum(body)))
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// tokenSum tells a mistyped or cut token from a wrong one. It protects nothing.
func tokenSum(body []byte) []byte {
	sum := sha256.Sum256(body)
	return sum[:6]
}

// ParseJoinToken reads a token's text form. Errors never contain any of it. It
// returns ErrInvalid.
func ParseJoinToken(s string) (JoinToken, error) {
	bad := func(why string) (JoinToken, error) {
		return JoinToken{}, WithHint(fmt.Errorf("mesh: parse join token: %s: %w", why, ErrInvalid),
			"paste the whole token, one line, as `meshctl admin token create` printed it")
	}
	s = strings.TrimSpace(s)
	rest, ok := strings.CutPrefix(s, tokenPrefix)
	switch {
	case s == "":
		return bad("it is empty")
	case len(s) > maxTokenLen:
		return bad("it is too long")
	case !ok && strings.HasPrefix(s, "meshctl"):
		return bad("its version is not known to this meshctl")
	case !ok:
		return bad("it does not begin with " + tokenPrefix)
	}
	text, sum, _ := strings.Cut(rest, ".")
	body, err1 := base64.RawURLEncoding.DecodeString(text)
	check, err2 := base64.RawURLEncoding.DecodeString(sum)
	if err1 != nil || err2 != nil || string(check) != string(tokenSum(body)) {
		return bad("it is damaged or cut short")
	}
	return parseTokenBody(body, bad)
}

func parseTokenBody(body []byte, bad func(string) (JoinToken, error)) (JoinToken, error) {
	var b tokenBody
	if json.Unmarshal(body, &b) != nil {
		return bad("its content is not readable")
	}
	id, err := ParseTokenID(b.ID)
	secret, err2 := base64.RawURLEncoding.DecodeString(b.Secret)
	if err != nil || err2 != nil || len(secret) != 32 || len(b.Root) != 32 {
		return bad("its content is incomplete")
	}
	if len(b.Addresses) == 0 || len(b.Addresses) > maxTokenAddr {
		return bad("it names no usable number of management addresses")
	}
	for _, a := range b.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return bad("one of its management addresses is not host:port")
		}
	}
	return JoinToken{Addresses: b.Addresses, RootHash: [32]byte(b.Root), ID: id, Secret: Secret(b.Secret)}, nil
}

// String redacts.
func (t JoinToken) String() string { return "join token " + string(t.ID) }

// LogValue redacts.
func (t JoinToken) LogValue() slog.Value { return slog.StringValue(t.String()) }
