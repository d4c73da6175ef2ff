package mgmt

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"

	"github.com/meshctl/meshctl/pkg/store"
)

// mendSealed replaces a sealed root that is not the one etcd holds. Serving
// needs neither, so damage would show on the day when the root is needed.
func mendSealed(ctx context.Context, st *store.Store, f *folder, k *keys, log *slog.Logger) error {
	b, err := st.CA.Get(ctx, blobRootSealed)
	if err != nil {
		return fmt.Errorf("mgmt: resume: %w", err)
	}
	if bytes.Equal(b.Value.Data, k.rootSealed) {
		return nil
	}
	log.Error("damaged file replaced by the copy in etcd", "file", f.path(fileRootSealed))
	k.rootSealed = b.Value.Data
	return f.write(fileRootSealed, k.rootSealed)
}
