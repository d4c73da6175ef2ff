package embedded

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// A full disk is nothing that a person has to repair in the data: it is tried
// again, and never called damage.
func TestAFullDiskIsNotDamage(t *testing.T) {
	m := &Member{Dir: "etcd", resumes: true}
	full := fmt.Errorf("write 0.wal: %w", syscall.ENOSPC)
	for name, err := range map[string]error{
		"an error of the start":         m.startError(full),
		"etcd's way to end the process": m.damaged(fatalLog{msg: "failed to save", err: ": " + full.Error(), cause: full}),
	} {
		t.Run(name, func(t *testing.T) {
			if !errors.Is(err, mesh.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "damaged") {
				t.Errorf("got %v", err)
			}
			if h := mesh.Hint(err); !strings.Contains(h, "make room") {
				t.Errorf("hint %q", h)
			}
		})
	}
	if err := m.startError(errors.New("crc mismatch")); !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damage: %v", err)
	}
}

// Whoever reads the log of a server whose disk filled up finds words above the
// stack, not the address of a struct.
func TestAPanicOfEtcdIsWorded(t *testing.T) {
	defer func() {
		err, ok := recover().(error)
		if !ok || !strings.Contains(err.Error(), "failed to commit tx: no space left on device; make room") {
			t.Errorf("the panic says %v", err)
		}
	}()
	zap.New(zapcore.NewNopCore(), zap.WithFatalHook(fatal{})).Fatal("failed to commit tx", zap.Error(syscall.ENOSPC))
}
