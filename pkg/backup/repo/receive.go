package repo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// spool returns a file of ours that goes away when it is closed.
func (r *Repo) spool() (*os.File, error) {
	dir := filepath.Join(r.dir, "tmp")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("repo: %w", err)
	}
	f, err := os.CreateTemp(dir, "pack")
	if err != nil {
		return nil, fmt.Errorf("repo: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil { // open, it stays readable
		return nil, errors.Join(fmt.Errorf("repo: %w", err), f.Close())
	}
	return f, nil
}

// store takes a pack from outside: all of it to a file, within the limits;
// then a look at every object's size; and only then the parser that makes
// whole objects of it.
func (r *Repo) storePack(ctx context.Context, src io.Reader) error {
	f, err := r.spool()
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(f, io.LimitReader(src, r.opts.Limits.Pack+1))
	switch {
	case err != nil:
		return err
	case n > r.opts.Limits.Pack:
		return faultf(ReasonLimit, "fetch: more than %d bytes: %w", r.opts.Limits.Pack, mesh.ErrInvalid)
	case n == 0:
		return nil // nothing was missing
	}
	r.step("pack received")
	if err := r.checkPack(ctx, f); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("repo: fetch: %w", err)
	}
	return r.addPack(ctx, f)
}

// addPack stores a pack that is checked, or our own.
func (r *Repo) addPack(ctx context.Context, src io.Reader) error {
	w, err := r.store.PackfileWriter()
	if err != nil {
		return damaged(err, "store a pack")
	}
	_, err = io.Copy(w, &stopReader{ctx, src, func() { r.step("storing") }})
	r.step("pack copied")
	if err = errors.Join(err, w.Close()); err != nil {
		err = fmt.Errorf("repo: store a pack: %w", err)
		if ctx.Err() == nil && ReasonOf(err) == ReasonOther {
			err = &Fault{Reason: ReasonFormat, Err: fmt.Errorf("%w: %w", err, mesh.ErrInvalid)}
		}
		return errors.Join(err, r.sweep())
	}
	r.load() // the new index, and no half-known objects
	return nil
}

// checkPack reads the sizes that a pack's objects say they have, and refuses
// one that would unpack to more than the limits.
func (r *Repo) checkPack(ctx context.Context, f *os.File) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("repo: fetch: %w", err)
	}
	bad := func(err error) error {
		return faultf(ReasonFormat, "fetch: the pack is not readable: %w: %w", err, mesh.ErrInvalid)
	}
	s := packfile.NewScanner(f)
	_, count, err := s.Header()
	if err != nil {
		return bad(err)
	}
	if int64(count) > int64(r.opts.Limits.Objects) {
		return faultf(ReasonLimit, "fetch: %d objects: at most %d: %w", count, r.opts.Limits.Objects, mesh.ErrInvalid)
	}
	var total int64
	for range count {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := s.NextObjectHeader()
		if err != nil {
			return bad(err)
		}
		size := h.Length
		if err := r.allow(size, &total); err != nil {
			return err
		}
		head := &headWriter{}
		if _, _, err := s.NextObject(head); err != nil {
			return bad(err)
		}
		if h.Type == plumbing.OFSDeltaObject || h.Type == plumbing.REFDeltaObject {
			result, ok := deltaResult(head.b)
			if !ok {
				return bad(errors.New("a change of no size"))
			}
			if err := r.allow(result, &total); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Repo) allow(size int64, total *int64) error {
	if size < 0 || size > int64(r.opts.Limits.File) {
		return faultf(ReasonLimit, "fetch: an object of %d bytes: at most %d: %w", size, r.opts.Limits.File, mesh.ErrInvalid)
	}
	if *total += size; *total > r.opts.Limits.Unpack {
		return faultf(ReasonLimit, "fetch: the pack unpacks to more than %d bytes: %w", r.opts.Limits.Unpack, mesh.ErrInvalid)
	}
	return nil
}

// deltaResult is the size of what a change makes: the second number in it.
func deltaResult(b []byte) (int64, bool) {
	_, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, false
	}
	size, m := binary.Uvarint(b[n:])
	return int64(size), m > 0 && size < 1<<62
}

// headWriter keeps the first bytes.
type headWriter struct{ b []byte }

func (h *headWriter) Write(p []byte) (int, error) {
	if room := 20 - len(h.b); room > 0 {
		h.b = append(h.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// stopReader ends with its context.
type stopReader struct {
	ctx  context.Context //nolint:containedctx // an io.Reader has no parameter for it
	r    io.Reader
	step func()
}

func (s *stopReader) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p)
	s.step()
	return n, err
}
