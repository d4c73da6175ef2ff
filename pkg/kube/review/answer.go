package review

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	apiVersion = "authentication.k8s.io/v1"
	kind       = "TokenReview"

	userPrefix = "system:serviceaccount:"
	extraName  = "authentication.kubernetes.io/pod-name"
	extraUID   = "authentication.kubernetes.io/pod-uid"
	extraNode  = "authentication.kubernetes.io/node-name"

	maxName = 253 // of an object of Kubernetes
	maxUID  = 64
)

// tokenReview is the part of the type of that name that matters here.
type tokenReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       spec   `json:"spec,omitzero"`
	Status     status `json:"status,omitzero"`
}

type spec struct {
	Token     string   `json:"token,omitzero"`
	Audiences []string `json:"audiences,omitzero"`
}

type status struct {
	Authenticated bool     `json:"authenticated,omitzero"`
	Audiences     []string `json:"audiences,omitzero"`
	User          user     `json:"user,omitzero"`
	Error         string   `json:"error,omitzero"`
}

type user struct {
	Username string              `json:"username"`
	Extra    map[string][]string `json:"extra"`
}

// parse reads an answer. What is no answer to the question is ErrUnavailable, and
// every other one than a pod's ErrDenied.
func parse(body []byte, audience string) (Pod, error) {
	var r tokenReview
	if err := json.Unmarshal(body, &r); err != nil || r.APIVersion != apiVersion || r.Kind != kind {
		return Pod{}, fmt.Errorf("review: the cluster answers with something else than a %s: %w", kind, mesh.ErrUnavailable)
	}
	denied := func(why string) (Pod, error) { return Pod{}, fmt.Errorf("review: %s: %w", why, mesh.ErrDenied) }
	switch {
	case !r.Status.Authenticated || r.Status.Error != "":
		return denied("the cluster does not accept the token")
	// None at all means that whoever looked at the token knows no audiences: it
	// would be good for the cluster's own API.
	case !slices.Equal(r.Status.Audiences, []string{audience}):
		return denied("the token is for another audience")
	}
	account, ok := strings.CutPrefix(r.Status.User.Username, userPrefix)
	namespace, name, two := strings.Cut(account, ":")
	p := Pod{
		Namespace: namespace, Account: name,
		Name: only(r.Status.User.Extra[extraName]), UID: only(r.Status.User.Extra[extraUID]),
		Node: only(r.Status.User.Extra[extraNode]),
	}
	switch {
	case !ok || !two || !isName(p.Namespace) || !isName(p.Account):
		return denied("the token is of no service account")
	case !isName(p.Name) || !isUID(p.UID):
		return denied("the token is bound to no pod")
	}
	if !isName(p.Node) {
		p.Node = "" // for people alone
	}
	return p, nil
}

// only is the one string in list, or "".
func only(list []string) string {
	if len(list) != 1 {
		return ""
	}
	return list[0]
}

// isName says whether s can be the name of an object.
func isName(s string) bool {
	return s != "" && len(s) <= maxName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

func isUID(s string) bool {
	return s != "" && len(s) <= maxUID && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
