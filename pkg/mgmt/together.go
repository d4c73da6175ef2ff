package mgmt

import (
	"context"
	"errors"
	"sync"
)

// together runs children that may stop together, and waits for all. When one
// ends, the others are told to; it returns their joined errors.
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
	return errors.Join(errs...)
}
