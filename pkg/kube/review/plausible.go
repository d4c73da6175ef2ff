package review

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// plausible refuses what cannot be a token for that audience, before the cluster
// is asked about it: a stranger with nothing at all is no burden to it. It says
// nothing about what passes, since nothing of it is verified.
func plausible(token mesh.Secret, audience string) error {
	refuse := func(why string) error { return fmt.Errorf("review: the token %s: %w", why, mesh.ErrDenied) }
	text := token.Reveal()
	parts := strings.Split(text, ".")
	if len(text) > MaxToken || len(parts) != 3 || strings.ContainsAny(text, "\r\n") { // which the decoder passes over
		return refuse("is none of a service account")
	}
	for _, p := range parts {
		if _, err := base64.RawURLEncoding.DecodeString(p); err != nil || p == "" {
			return refuse("is none of a service account")
		}
	}
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Audience audiences `json:"aud"`
	}
	if json.Unmarshal(payload, &claims) != nil || !slices.Equal(claims.Audience, audiences{audience}) {
		return refuse("is for another audience")
	}
	return nil
}

// Claimed is the UID of the pod that a token says to be of, "" for none. Nothing of it
// is verified: it is good for saying whose turn it is, and for nothing else.
func Claimed(token mesh.Secret) string {
	parts := strings.Split(token.Reveal(), ".")
	if len(token.Reveal()) > MaxToken || len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Kubernetes struct {
			Pod struct {
				UID string `json:"uid"`
			} `json:"pod"`
		} `json:"kubernetes.io"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil || !isUID(claims.Kubernetes.Pod.UID) {
		return ""
	}
	return claims.Kubernetes.Pod.UID
}

// audiences are a string or several, as RFC 7519 has it.
type audiences []string

func (a *audiences) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}
