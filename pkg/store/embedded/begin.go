package embedded

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

// discardUnbegun removes what a first start left that was cut off before it had
// committed anything. etcd would take it for a member that runs, and wait for
// ever to learn from its log who the members are.
func (m *Member) discardUnbegun() error {
	if m.resumes || m.Existing || m.Cluster != "" {
		return nil
	}
	logs := filepath.Join(m.Dir, "member", "wal")
	if !wal.Exist(logs) || committed(logs) {
		return nil
	}
	m.Log.Warn("unfinished beginning discarded")
	if err := os.RemoveAll(filepath.Join(m.Dir, "member")); err != nil {
		return fmt.Errorf("discard an unfinished beginning: %w", err)
	}
	return nil
}

// committed says whether a log may hold anything. A damaged one may: etcd says
// what is wrong with it.
func committed(logs string) bool {
	w, err := wal.OpenForRead(zap.NewNop(), logs, &walpb.Snapshot{})
	if err != nil {
		return true
	}
	defer w.Close() // only read
	_, state, _, err := w.ReadAll()
	return err != nil || state.GetCommit() > 0
}

// closeEtcd ends etcd also before it is ready: Close alone waits for listeners
// that start when it is.
func closeEtcd(e *embed.Etcd) {
	select {
	case <-e.Server.ReadyNotify():
	default:
		e.Server.HardStop()
	}
	e.Close()
}
