package kubetest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Review is what the server says of a token; the zero value is that it does not know
// it.
type Review struct {
	OK        bool
	User      string // system:serviceaccount:NAMESPACE:NAME
	Extra     map[string][]string
	Audiences []string // that it is for, of those that were asked about
	Error     string
}

// Pod is the review of a token that is bound to a pod.
func Pod(namespace, account, name, uid, node, audience string) Review {
	return Review{
		OK: true, User: "system:serviceaccount:" + namespace + ":" + account, Audiences: []string{audience},
		Extra: map[string][]string{
			"authentication.kubernetes.io/pod-name":  {name},
			"authentication.kubernetes.io/pod-uid":   {uid},
			"authentication.kubernetes.io/node-name": {node},
		},
	}
}

// Tokens says what is known of a token.
func (s *Server) Tokens(f func(token string, audiences []string) Review) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reviews = f
}

func (s *Server) tokenReview(w http.ResponseWriter, req *http.Request) {
	var in struct {
		Spec struct {
			Token     string
			Audiences []string
		}
	}
	if err := json.NewDecoder(io.LimitReader(req.Body, 1<<20)).Decode(&in); err != nil || req.Method != http.MethodPost {
		refuse(w, apierrors.NewBadRequest("want a TokenReview"))
		return
	}
	s.mu.Lock()
	f, denied := s.reviews, s.denied["create tokenreviews"]
	s.requests = append(s.requests, "review token")
	s.mu.Unlock()
	if denied {
		refuse(w, apierrors.NewForbidden(schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}, "", errors.New("the account cannot create it")))
		return
	}
	var r Review
	if f != nil {
		r = f(in.Spec.Token, in.Spec.Audiences)
	}
	status := map[string]any{"authenticated": r.OK}
	if r.OK {
		status["user"] = map[string]any{"username": r.User, "uid": "account", "groups": []string{"system:serviceaccounts"}, "extra": r.Extra}
		status["audiences"] = r.Audiences
	}
	if r.Error != "" {
		status["error"] = r.Error
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": map[string]any{}, "spec": in.Spec, "status": status,
	})
}

// accessReview says what Deny left.
func (s *Server) accessReview(w http.ResponseWriter, req *http.Request) {
	var in struct {
		Spec struct {
			ResourceAttributes struct{ Verb, Resource, Subresource string }
		}
	}
	if err := json.NewDecoder(io.LimitReader(req.Body, 1<<20)).Decode(&in); err != nil || req.Method != http.MethodPost {
		refuse(w, apierrors.NewBadRequest("want a SelfSubjectAccessReview"))
		return
	}
	a := in.Spec.ResourceAttributes
	if a.Subresource != "" {
		a.Resource += "/" + a.Subresource
	}
	s.mu.Lock()
	allowed := !s.denied[a.Verb+" "+a.Resource]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": map[string]any{},
		"status": map[string]any{"allowed": allowed},
	})
}
