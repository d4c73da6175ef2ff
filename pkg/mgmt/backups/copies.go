package backups

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/internal/durable"
	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	copyPrefix, copySuffix = "etcd-", ".age"
	copyStamp              = "20060102T150405Z"
	// copyLook is how often it is looked whether a copy is due, and copyTime how
	// long one may take.
	copyLook = 5 * time.Second
	copyTime = time.Hour
)

// copyOften makes full copies of etcd whenever one is due, until ctx ends.
func (s *Service) copyOften(ctx context.Context, t *term) {
	tick := time.NewTicker(min(copyLook, 5*s.poll()))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		set, last := t.set, t.state.Copy
		s.mu.Unlock()
		if set.Copies.Dir == "" || !copyDue(set.Copies, last, s.now()) {
			continue
		}
		state, err := s.copyOnce(ctx, set)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if last.Problem == "" {
				s.Log.Warn("full copy not made", "err", err)
			}
			state, state.Problem, state.Tried = last, mesh.Plain(err), s.now()
		}
		s.set(func() { t.state.Copy = state })
		t.touch()
	}
}

// copyDue: after a failure it is tried again sooner.
func copyDue(c mesh.BackupCopies, last mesh.BackupCopyState, now time.Time) bool {
	every := time.Duration(c.Every)
	if last.Problem != "" {
		return passed(now, last.Tried, min(every, again))
	}
	return passed(now, last.At, every)
}

// copyOnce makes one and removes those that are too many.
func (s *Service) copyOnce(ctx context.Context, set mesh.BackupSettings) (st mesh.BackupCopyState, err error) {
	ctx, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	defer recovered(&err)
	if len(set.Recipients) == 0 {
		return st, mesh.WithHint(fmt.Errorf("backups: full copy: there is no recipient who could read it: %w", mesh.ErrConflict),
			"meshctl admin backup recipient new NAME --out FILE")
	}
	now := s.now()
	dir := set.Copies.Dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return st, fmt.Errorf("backups: full copy: %w", err)
	}
	name := filepath.Join(dir, copyPrefix+now.Format(copyStamp)+copySuffix)
	size, sum, err := s.writeCopy(ctx, name, recipients(set))
	if err != nil {
		return st, fmt.Errorf("backups: full copy: %w", err)
	}
	left, err := thin(dir, max(1, set.Copies.Keep))
	if err != nil {
		return st, fmt.Errorf("backups: full copy: remove old ones: %w", err)
	}
	s.Log.Info("full copy made", "file", name, "bytes", size)
	return mesh.BackupCopyState{File: name, At: now, Tried: now, Bytes: size, SHA256: sum, Count: left}, nil
}

func recipients(set mesh.BackupSettings) []string {
	var out []string
	for _, r := range set.Recipients {
		out = append(out, r.Key)
	}
	return out
}

// writeCopy writes the file under another name, and gives it its own once it is
// whole and on the disk. It returns size and SHA-256 of the file.
func (s *Service) writeCopy(ctx context.Context, name string, keys []string) (size int64, sum string, err error) {
	part := name + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(part))
		}
	}()
	hash := sha256.New()
	w, err := backup.Seal(io.MultiWriter(f, hash), keys...)
	if err != nil {
		return 0, "", err
	}
	if _, err := s.Store.Snapshot(ctx, w); err != nil {
		return 0, "", err
	}
	if err := errors.Join(w.Close(), f.Sync()); err != nil {
		return 0, "", err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	if err := os.Rename(part, name); err != nil {
		return 0, "", err
	}
	err = errors.Join(f.Close(), durable.SyncDir(filepath.Dir(name)))
	return info.Size(), hex.EncodeToString(hash.Sum(nil)), err
}

// thin removes all but the newest copies, and what a copy that was cut off left.
// It returns how many are left.
func thin(dir string, keep int) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var names []string
	for _, e := range entries {
		stamp, ok := strings.CutPrefix(e.Name(), copyPrefix)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		if rest, part := strings.CutSuffix(stamp, copySuffix+".part"); part && isStamp(rest) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return 0, err
			}
			continue
		}
		if rest, whole := strings.CutSuffix(stamp, copySuffix); whole && isStamp(rest) {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(b, a) })
	for _, name := range names[min(keep, len(names)):] {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return 0, err
		}
	}
	return min(keep, len(names)), nil
}

func isStamp(s string) bool {
	_, err := time.Parse(copyStamp, s)
	return err == nil
}
