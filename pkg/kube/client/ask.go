package client

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshctl/meshctl/pkg/kube"
)

// Ask answers a question about a cluster, and changes nothing there. ctx bounds all of
// it.
func Ask(ctx context.Context, q kube.Ask) kube.Answer {
	c, err := dial(q.API)
	if err != nil {
		return kube.Answer{Failure: kube.Other, Detail: err.Error()}
	}
	defer c.idle()
	asker := &applier{conn: c, owner: owner{q.Mesh, q.Cluster}, took: usual().request, dry: true}
	var a kube.Answer
	switch q.Kind {
	case kube.AskCheck:
		err = asker.check(ctx, &a)
	case kube.AskPlan:
		err = asker.plan(ctx, q.Objects, &a)
	default:
		err = fmt.Errorf("client: there is no question %q", q.Kind)
	}
	if kind, detail := failure(err); kind != kube.NoFailure {
		a.Failure, a.Detail = kind, detail
	}
	return a
}

// check asks for the version, the namespace, and every right that is needed.
func (a *applier) check(ctx context.Context, out *kube.Answer) error {
	if err := a.askVersion(ctx, out); err != nil {
		return err
	}
	for _, r := range kube.Rights() {
		allowed, err := a.may(ctx, r, a.namespace)
		if err != nil {
			return err
		}
		if !allowed {
			out.Missing = append(out.Missing, fmt.Sprintf("%s %s in %s", r.Verb, r.Resource, a.namespace))
		}
	}
	review := kube.Right{Group: "authentication.k8s.io", Resource: "tokenreviews", Verb: "create"}
	allowed, err := a.may(ctx, review, "")
	if err == nil && !allowed {
		out.Missing = append(out.Missing, "create tokenreviews")
	}
	if err != nil {
		return err
	}
	return a.checkNamespace(ctx, out)
}

func (a *applier) askVersion(ctx context.Context, out *kube.Answer) error {
	ctx, cancel := a.limit(ctx)
	defer cancel()
	v, err := a.version(ctx)
	if isOwn(err) {
		err = nil // a cluster may keep its version to itself
	}
	out.Version = v
	return err
}

// may asks whether the credential has a right; "" is no namespace.
func (a *applier) may(ctx context.Context, r kube.Right, namespace string) (bool, error) {
	ctx, cancel := a.limit(ctx)
	defer cancel()
	resource, sub, _ := strings.Cut(r.Resource, "/")
	reviews := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
	got, err := a.Resource(reviews).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1",
		"kind":       "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"namespace": namespace, "group": r.Group, "resource": resource, "subresource": sub, "verb": r.Verb,
		}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	allowed, _, _ := unstructured.NestedBool(got.Object, "status", "allowed")
	return allowed, nil
}

// checkNamespace says when the namespace is not there, may not be looked at, or lets
// in what it should not.
func (a *applier) checkNamespace(ctx context.Context, out *kube.Answer) error {
	uid, guarded, err := a.space(ctx)
	switch {
	case err == nil:
		out.NamespaceUID, out.Unguarded = uid, !guarded
		return nil
	case apierrors.IsNotFound(err):
		out.Missing = append(out.Missing, "find the namespace "+a.namespace)
	case apierrors.IsForbidden(err):
		out.Missing = append(out.Missing, "get namespaces "+a.namespace)
	default:
		return err
	}
	return nil
}

// space says which namespace it is, and whether that refuses pods that want more than
// entries do.
func (a *applier) space(ctx context.Context) (uid string, guarded bool, err error) {
	ctx, cancel := a.limit(ctx)
	defer cancel()
	o, err := a.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, a.namespace, metav1.GetOptions{})
	if err != nil {
		return "", false, err
	}
	return printable(string(o.GetUID()), 64), o.GetLabels()[kube.LabelPodSecurity] == kube.PodSecurity, nil
}
