package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Snapshot writes a full copy of the etcd member that the store is connected to,
// in the form that etcd's own tools restore: its database, then the SHA-256 of
// it. What was written is good only when no error is returned: it is compared
// with its hash at the end. It returns the number of bytes written.
func (s *Store) Snapshot(ctx context.Context, w io.Writer) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	resp, err := s.client.SnapshotWithVersion(ctx)
	if err != nil {
		return 0, wrap("copy etcd", err)
	}
	defer resp.Snapshot.Close() // only read
	t := trailing{hash: sha256.New()}
	n, err := io.Copy(w, io.TeeReader(resp.Snapshot, &t))
	if err != nil {
		return n, wrap("copy etcd", err)
	}
	if !bytes.Equal(t.hash.Sum(nil), t.held) {
		return n, fmt.Errorf("store: copy etcd: the copy does not match its hash: %w", mesh.ErrUnavailable)
	}
	return n, nil
}

// trailing hashes all but the last bytes, which it holds: the hash itself.
type trailing struct {
	hash hash.Hash
	held []byte
}

func (t *trailing) Write(p []byte) (int, error) {
	t.held = append(t.held, p...)
	if over := len(t.held) - sha256.Size; over > 0 {
		t.hash.Write(t.held[:over])
		t.held = append(t.held[:0], t.held[over:]...)
	}
	return len(p), nil
}
