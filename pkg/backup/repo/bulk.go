package repo

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
)

// bulk stores the objects of a draft: a few in files of their own, and what is
// beyond in one pack. Ten thousand files take longer to make than to
// write.
type bulk struct {
	repo  *Repo
	loose int
	file  *os.File
	pack  *packWriter
}

// fewObjects is how many get files of their own.
const fewObjects = 200

func (b *bulk) write(kind plumbing.ObjectType, data []byte) (plumbing.Hash, error) {
	if b.loose < fewObjects {
		b.loose++
		return b.repo.write(kind, data)
	}
	h := plumbing.ComputeHash(kind, data)
	if b.pack == nil {
		if err := b.begin(); err != nil {
			return h, err
		}
	}
	if _, here := b.pack.at[h]; here || b.repo.has(h) {
		return h, nil
	}
	b.repo.step("object")
	at := b.pack.n
	if err := b.pack.entry(kind, nil, data); err != nil {
		return h, err
	}
	b.pack.at[h] = at
	return h, nil
}

func (b *bulk) begin() error {
	f, err := b.repo.spool()
	if err != nil {
		return err
	}
	b.file, b.pack = f, newPackWriter(f)
	_, err = b.pack.Write(packHead(0)) // the number comes last
	return err
}

// finish puts the pack into the clone.
func (b *bulk) finish(ctx context.Context) error {
	if b.pack == nil || len(b.pack.at) == 0 {
		return b.close()
	}
	if _, err := b.file.WriteAt(packHead(len(b.pack.at)), 0); err != nil {
		return err
	}
	sum := sha1.New()
	if _, err := io.Copy(sum, io.NewSectionReader(b.file, 0, b.pack.n)); err != nil {
		return err
	}
	if _, err := b.file.WriteAt(sum.Sum(nil), b.pack.n); err != nil {
		return err
	}
	if _, err := b.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return errors.Join(b.repo.addPack(ctx, b.file), b.close())
}

func (b *bulk) close() error {
	if b.file == nil {
		return nil
	}
	err := b.file.Close()
	b.file, b.pack = nil, nil
	if err != nil {
		return fmt.Errorf("repo: %w", err)
	}
	return nil
}
