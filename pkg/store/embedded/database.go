package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// lockWait is how long another process may hold the database, as one that is
// just ending does.
const lockWait = 5 * time.Second

// checkDatabase opens the database before etcd does, because etcd opens it in a
// goroutine of its own and ends the process when it cannot, and waits without
// end when another process has it.
func (m *Member) checkDatabase() error {
	db, err := bolt.Open(filepath.Join(m.Dir, "member", "snap", "db"), 0o600, &bolt.Options{ReadOnly: true, Timeout: lockWait})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return mesh.WithHint(fmt.Errorf("another process runs etcd in %s: %w", m.Dir, mesh.ErrUnavailable),
			"stop the other meshctl on this machine first")
	case errors.Is(err, fs.ErrPermission):
		return m.startError(err)
	case err != nil:
		return m.damaged(fmt.Sprintf("database: %v", err))
	}
	return db.Close()
}
