package mesh

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestVerifiersKnowTheirSecretAndNoOther(t *testing.T) {
	id, secret := NewDeviceID(), NewSecret(32)
	v := NewVerifiers(id, secret)
	if !v.CheckHTTP(id, secret) || !v.CheckVLESS(id, secret.UserID(id)) || !v.CheckTrojan(id, secret.TrojanKey()) {
		t.Error("the secret's own credentials are refused")
	}
	other, otherID := NewSecret(32), NewDeviceID()
	if v.CheckHTTP(id, other) || v.CheckVLESS(id, other.UserID(id)) || v.CheckTrojan(id, other.TrojanKey()) {
		t.Error("another secret is taken")
	}
	if v.CheckHTTP(otherID, secret) || v.CheckVLESS(otherID, secret.UserID(id)) || v.CheckTrojan(otherID, secret.TrojanKey()) {
		t.Error("another device is taken")
	}
	none := Verifiers{}
	if none.CheckHTTP(id, secret) || none.CheckVLESS(id, secret.UserID(id)) || none.CheckTrojan(id, secret.TrojanKey()) {
		t.Error("a verifier that is not there lets somebody in")
	}
	for name, text := range map[string]string{"http": v.HTTP, "vless": v.VLESS, "trojan": v.Trojan} {
		if strings.Contains(text, secret.Reveal()) || len(text) != 43 {
			t.Errorf("%s: %d characters", name, len(text))
		}
	}
}

// The key is that of the protocol's own page: SHA-224 of the password in hexadecimal.
func TestCredentialsAsClientsSendThem(t *testing.T) {
	if got := Secret("password").TrojanKey(); got != "d63dc919e201d7bc4c825630d2cf25fdc93d4b2f0d46706d29038d01" {
		t.Errorf("trojan key %s", got)
	}
	u := Secret("password").UserID("device-aaaaaaaaaaaaaaaa")
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(u.Reveal()) {
		t.Errorf("user id %s is not a UUID of version 8", u.Reveal())
	}
	if s := fmt.Sprintf("%v %s %#v", u, u, u); strings.Contains(s, u.Reveal()[:8]) {
		t.Errorf("printed: %s", s)
	}
}

func TestOffersInText(t *testing.T) {
	for _, o := range Offers() {
		var back Offer
		text, err := o.MarshalText()
		if err != nil || back.UnmarshalText(text) != nil || back != o {
			t.Errorf("%v became %v", o, back)
		}
	}
	for _, bad := range []string{"", "vless", "http-ws", "socks-grpc", "VLESS-tcp", "vless-tcp "} {
		var o Offer
		if err := o.UnmarshalText([]byte(bad)); err == nil || !strings.Contains(err.Error(), "vless-tcp") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
