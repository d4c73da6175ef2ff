package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

var (
	// errStale: somebody with a later epoch writes.
	errStale = errors.New("client: a later epoch writes to the cluster")
	// errForeign: an object is there that is not ours.
	errForeign = errors.New("client: what is there is not ours")
	// errEnding: an object is being deleted; it can be made anew when it is gone.
	errEnding = errors.New("client: the object is being deleted")
	// errFight: others change an object as often as it is put right.
	errFight = errors.New("others change it again and again, so it is put right less often")
)

// conflictError has the fields that others keep otherwise.
type conflictError struct{ fields []mesh.KubeConflict }

func (e *conflictError) Error() string {
	return fmt.Sprintf("client: %d fields are kept otherwise by others", len(e.fields))
}

// attempts bounds how often one object is read again because it changed between
// reading and writing.
const attempts = 4

// applier writes to one cluster for one owner.
type applier struct {
	*conn
	owner owner
	epoch kube.Epoch
	// took is how long one request may take.
	took time.Duration
	// dry has the API answer as if, and keep nothing.
	dry bool
}

func (a *applier) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.took)
}

// live reads an object; nil is none.
func (a *applier) live(ctx context.Context, w wanted) (*unstructured.Unstructured, error) {
	ctx, cancel := a.limit(ctx)
	defer cancel()
	o, err := a.of(w.kind).Get(ctx, w.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// apply makes an object as it is to be, and returns it as it is then, and before
// (nil: it was not there). It writes nothing when what we own there is as in good; when
// it is not, others changed it, and it is put right unless that was often enough.
func (a *applier) apply(ctx context.Context, w wanted, good any, enough bool) (now, before *unstructured.Unstructured, err error) {
	for range attempts {
		before, err = a.live(ctx, w)
		if err != nil {
			return nil, nil, err
		}
		if good != nil && before != nil && reflect.DeepEqual(owned(before, manager), good) {
			return before, before, nil
		}
		if good != nil && enough {
			return nil, before, errFight
		}
		if err := a.mayWrite(before); err != nil {
			return nil, before, err
		}
		now, err = a.write(ctx, w, before)
		if !isLate(err) {
			return now, before, err
		}
	}
	return nil, before, err
}

// mayWrite says why an object is not to be touched.
func (a *applier) mayWrite(live *unstructured.Unstructured) error {
	switch {
	case live == nil:
		return nil
	case a.epoch.Before(epochOf(live)):
		return errStale
	case !a.owner.has(live):
		return errForeign
	case live.GetDeletionTimestamp() != nil:
		return errEnding
	}
	return nil
}

// write applies once, on top of what was read.
func (a *applier) write(ctx context.Context, w wanted, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if live == nil && w.begin == 0 {
		return a.patch(ctx, w.kind, w.Unstructured, metav1.ApplyOptions{FieldManager: manager})
	}
	if live == nil {
		begun, err := a.begin(ctx, w)
		if err != nil || a.dry {
			return begun, err
		}
		live = begun
	}
	onto := w.DeepCopy()
	onto.SetResourceVersion(live.GetResourceVersion())
	if givesAway(w, live) {
		given, err := a.giveAway(ctx, w, live)
		if err != nil {
			return nil, err
		}
		onto.SetResourceVersion(given.GetResourceVersion())
	}
	if sharesNumber(w, live) {
		return a.takeBack(ctx, w, onto)
	}
	return a.patch(ctx, w.kind, onto, metav1.ApplyOptions{FieldManager: manager})
}

func (a *applier) patch(ctx context.Context, k kind, o *unstructured.Unstructured, how metav1.ApplyOptions) (*unstructured.Unstructured, error) {
	ctx, cancel := a.limit(ctx)
	defer cancel()
	if a.dry {
		how.DryRun = []string{metav1.DryRunAll}
	}
	now, err := a.of(k).Apply(ctx, o.GetName(), o, how)
	if fields := conflictsOf(ref(o), err); len(fields) > 0 {
		return nil, &conflictError{fields}
	}
	return now, err
}

// isLate: the object changed after it was read.
func isLate(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

var managerIn = regexp.MustCompile(`^conflict with "([^"]*)"(?: with subresource "([^"]*)")?`)

// conflictsOf are the fields that an error names.
func conflictsOf(name string, err error) []mesh.KubeConflict {
	if c, ok := errors.AsType[*conflictError](err); ok {
		return c.fields
	}
	s, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || s.ErrStatus.Details == nil {
		return nil
	}
	var fields []mesh.KubeConflict
	for _, cause := range s.ErrStatus.Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		c := mesh.KubeConflict{Object: name, Field: printable(strings.TrimPrefix(cause.Field, "."), 256), Manager: printable(cause.Message, 128)}
		if m := managerIn.FindStringSubmatch(cause.Message); m != nil {
			c.Manager = printable(m[1], 128)
			if m[2] != "" {
				c.Manager += " (" + printable(m[2], 64) + ")"
			}
		}
		fields = append(fields, c)
	}
	slices.SortFunc(fields, func(a, b mesh.KubeConflict) int { return strings.Compare(a.Field+a.Manager, b.Field+b.Manager) })
	return fields
}
