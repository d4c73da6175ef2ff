package adminsvc

import (
	"context"
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// askKube asks a cluster.
func (s *Service) askKube(ctx context.Context, c mesh.KubeCluster, kind kube.AskKind, objects []kube.Object) (kube.Answer, error) {
	credential, err := s.Store.Unseal(store.KubeCredentialPlace(c.ID), c.Credential)
	if err != nil {
		return kube.Answer{}, err
	}
	return s.Kubes.AskKube(ctx, kube.Ask{
		Kind: kind, Mesh: s.Mesh, Cluster: c.ID, Objects: objects,
		API: kube.API{Server: c.Server, CA: c.CA, ServerName: c.ServerName, Auth: c.Auth, Credential: credential, Namespace: c.Namespace},
	})
}

// badAnswer is the error that an answer is; nil for a good one.
func badAnswer(c mesh.KubeCluster, a kube.Answer) error {
	hint, kind := blame(c, a.Failure)
	if a.Failure == kube.NoFailure && len(a.Missing) > 0 {
		hint, kind = blame(c, kube.Denied)
		return mesh.WithHint(fmt.Errorf("admin: cluster %s: the credential may not %s: %w", c.Name, strings.Join(a.Missing, ", "), kind), hint)
	}
	if a.Failure == kube.NoFailure && a.Unguarded {
		hint, kind = blame(c, kube.Denied)
		return mesh.WithHint(fmt.Errorf("admin: cluster %s: the namespace %s does not enforce the Pod Security standard %s: %w", c.Name, c.Namespace, kube.PodSecurity, kind), hint)
	}
	if kind == nil {
		return nil
	}
	return mesh.WithHint(fmt.Errorf("admin: cluster %s: %s: %w", c.Name, said(a), kind), hint)
}

// said is a failure with the API's own words.
func said(a kube.Answer) string {
	if a.Detail == "" {
		return string(a.Failure)
	}
	return string(a.Failure) + ": " + a.Detail
}

// blame says what to do about a failure, and what kind of error it is.
func blame(c mesh.KubeCluster, f kube.Failure) (hint string, kind error) {
	switch f {
	case kube.NoFailure:
		return "", nil
	case kube.Untrusted:
		return "compare the CA in the kubeconfig with that of the cluster; --tls-server-name where its certificate has another name", mesh.ErrDenied
	case kube.Credential:
		return "make a new credential, see `meshctl admin kube rbac --help`, then: meshctl admin kube set " + c.Name + " --kubeconfig FILE", mesh.ErrDenied
	case kube.Denied:
		return "somebody who administers the cluster applies this once: meshctl admin kube rbac --namespace " + c.Namespace + " | kubectl apply -f -", mesh.ErrDenied
	case kube.Foreign:
		return "choose a namespace in which nothing has these names", mesh.ErrConflict
	case kube.Unreachable:
		return "every management server has to reach " + c.Server + "; kube add and kube set take it unasked with --unchecked", mesh.ErrUnavailable
	}
	return "try again in a while; the cluster's own log may say more", mesh.ErrUnavailable
}
