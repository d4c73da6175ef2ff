package mgmt

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// together runs children that may stop together, and waits for all. When one
// ends, the others are told to; it returns their joined errors, but for those of
// children that only did as told.
func together(ctx context.Context, children ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(children))
	var wg sync.WaitGroup
	for i, child := range children {
		wg.Go(func() {
			defer cancel()
			errs[i] = child(ctx)
		})
	}
	wg.Wait()
	told := func(err error) bool { return errors.Is(err, context.Canceled) }
	if faults := slices.DeleteFunc(slices.Clone(errs), told); errors.Join(faults...) != nil {
		return errors.Join(faults...)
	}
	return errors.Join(errs...)
}
