package client

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// prune removes what is ours and not wanted, of some kinds, in the reverse order of
// applying.
func (s *session) prune(ctx context.Context, which func(kind) bool) error {
	for _, k := range slices.Backward(kinds) {
		if k.made || !which(k) {
			continue
		}
		list, _ := s.cache.list(k.name)
		for _, o := range list {
			if s.isWanted(o) || o.GetDeletionTimestamp() != nil || metav1.GetControllerOf(o) != nil || s.isHeld(k) {
				continue
			}
			if len(s.wanted) == 0 && byHand(o) {
				continue
			}
			if err := s.remove(ctx, k, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear makes sure that nothing of ours is left where nothing is wanted, also of what
// no watch has shown yet.
func (s *session) clear(ctx context.Context) error {
	if len(s.wanted) > 0 || s.cleared || !s.isEmpty() {
		return nil
	}
	left := 0
	for _, k := range slices.Backward(kinds) {
		found, err := s.applier.listOurs(ctx, k)
		if err != nil {
			return err
		}
		for _, o := range found {
			if !k.made && byHand(&o) {
				continue
			}
			left++
			if k.made || o.GetDeletionTimestamp() != nil || metav1.GetControllerOf(&o) != nil {
				continue
			}
			if err := s.remove(ctx, k, &o); err != nil {
				return err
			}
		}
	}
	s.cleared = left == 0
	return nil
}

func (s *session) isWanted(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(s.wanted, func(w wanted) bool { return w.key() == ref(o) })
}

// maxSwept bounds how many are named of what was removed.
const maxSwept = 20

// remove deletes one object, unless somebody changed it meanwhile or it is not ours.
func (s *session) remove(ctx context.Context, k kind, o *unstructured.Unstructured) error {
	err := s.applier.remove(ctx, k, o.GetName())
	switch {
	case err == nil && len(s.wanted) == 0 && len(s.swept) < maxSwept:
		s.swept = append(s.swept, ref(o))
	case apierrors.IsNotFound(err), errors.Is(err, errForeign), errors.Is(err, errEnding), isLate(err):
		return nil
	}
	return err
}

func (a *applier) remove(ctx context.Context, k kind, name string) error {
	ctx, cancel := a.limit(ctx)
	defer cancel()
	live, err := a.of(k).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := a.mayWrite(live); err != nil {
		return err
	}
	return a.of(k).Delete(ctx, name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: new(live.GetUID()), ResourceVersion: new(live.GetResourceVersion())},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
}

// isHeld: what keeps the pods stays until what is wanted instead serves.
func (s *session) isHeld(k kind) bool {
	if k.name != "Deployment" && k.name != "DaemonSet" {
		return false
	}
	w, ok := s.workload()
	if !ok {
		return false
	}
	live, _ := s.cache.get(w.kind.name, w.GetName())
	if live == nil {
		return true
	}
	f := figuresOf(live)
	return !f.current || f.available < f.desired || f.desired == 0
}

// workload is what is to keep the pods.
func (s *session) workload() (wanted, bool) {
	i := slices.IndexFunc(s.wanted, func(w wanted) bool { return w.kind.name == "Deployment" || w.kind.name == "DaemonSet" })
	if i < 0 {
		return wanted{}, false
	}
	return s.wanted[i], true
}
