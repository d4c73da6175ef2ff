package mesh

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func sampleToken() JoinToken {
	return JoinToken{
		Addresses: []string{"mgmt.example.net:8443", "[2001:db8::1]:8443"},
		RootHash:  sha256.Sum256([]byte("root")),
		ID:        NewTokenID(),
		Secret:    NewSecret(32),
	}
}

func TestJoinTokenRoundTrip(t *testing.T) {
	want := sampleToken()
	for _, wrap := range []string{"%s", " %s\n", "%s\r\n"} {
		got, err := ParseJoinToken(fmt.Sprintf(wrap, want.Encode().Reveal()))
		if err != nil {
			t.Fatalf("ParseJoinToken: %v", err)
		}
		if fmt.Sprint(got.Addresses) != fmt.Sprint(want.Addresses) || got.RootHash != want.RootHash || got.ID != want.ID || got.Secret != want.Secret {
			t.Errorf("got %#v, want %#v", got, want)
		}
	}
}

func TestParseJoinTokenRefuses(t *testing.T) {
	good := sampleToken().Encode().Reveal()
	tests := []struct{ name, in, want string }{
		{"nothing", "", "empty"},
		{"something else", "hello", "does not begin with"},
		{"a later version", "meshctl2.abc.def", "version is not known"},
		{"a token cut short", good[:len(good)-20], "damaged or cut short"},
		{"a token without its sum", good[:strings.LastIndex(good, ".")], "damaged or cut short"},
		{"a token with a letter changed", "meshctl1.A" + good[len("meshctl1.")+1:], "damaged or cut short"},
		{"a very long text", "meshctl1." + strings.Repeat("A", 5000), "too long"},
		{"two lines", good + "\n" + good, "too long|damaged"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseJoinToken(tt.in)
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v, want ErrInvalid", err)
			}
			if Hint(err) == "" {
				t.Error("no hint")
			}
			ok := false
			for w := range strings.SplitSeq(tt.want, "|") {
				ok = ok || strings.Contains(err.Error(), w)
			}
			if !ok {
				t.Errorf("got %q, want it to say %q", err, tt.want)
			}
			if len(tt.in) > 20 && strings.Contains(err.Error(), tt.in[10:20]) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

func FuzzParseJoinToken(f *testing.F) {
	f.Add(sampleToken().Encode().Reveal())
	f.Add("meshctl1..")
	f.Add("meshctl1.e30.RBNvo1Wz")
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := ParseJoinToken(s)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%v is not ErrInvalid", err)
			}
			return
		}
		again, err := ParseJoinToken(tok.Encode().Reveal())
		if err != nil || again.ID != tok.ID || again.Secret != tok.Secret {
			t.Fatalf("parsed but does not survive: %v", err)
		}
	})
}

func TestSecretsAreNotPrintable(t *testing.T) {
	secret := NewSecret(32)
	tok := sampleToken()
	sealed := Sealed(SealedPrefix + secret.Reveal())
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", secret, "token", tok, "sealed", sealed, "in", struct{ S Secret }{secret})
	text, err := secret.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join([]string{
		fmt.Sprint(secret), fmt.Sprintf("%q %#v %+v", secret, secret, struct{ S Secret }{secret}),
		fmt.Sprint(tok), fmt.Sprint(sealed), string(text), log.String(),
	}, "\n")
	for _, planted := range []string{secret.Reveal(), tok.Secret.Reveal()} {
		if strings.Contains(all, planted) {
			t.Errorf("a secret is printed:\n%s", all)
		}
	}
}

func TestTokenState(t *testing.T) {
	now := time.Now()
	fresh := Token{Expires: now.Add(time.Hour)}
	tests := []struct {
		name string
		tok  Token
		want TokenState
	}{
		{"within its life", fresh, TokenUnused},
		{"at its end", Token{Expires: now}, TokenExpired},
		{"used, although expired since", Token{Expires: now, Used: &TokenUse{}}, TokenUsed},
		{"revoked, whatever else", Token{Expires: now, Revoked: true, Used: &TokenUse{}}, TokenRevoked},
	}
	for _, tt := range tests {
		if got := tt.tok.State(now); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
