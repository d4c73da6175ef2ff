package repo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// packIfMany packs the objects that lie in files of their own when they became
// many: ten thousand files of 4 KiB blocks hold what a pack holds in a hundredth.
func (r *Repo) packIfMany(ctx context.Context) error {
	loose, err := r.looseObjects()
	if err != nil {
		return err
	}
	if len(loose) >= r.opts.Limits.Loose {
		if err := r.Pack(ctx); err != nil {
			return err
		}
	}
	return r.mergeIfMany(ctx)
}

// looseObjects lists the objects in files of their own.
func (r *Repo) looseObjects() (map[plumbing.Hash]bool, error) {
	out := make(map[plumbing.Hash]bool)
	dirs, err := filepath.Glob(filepath.Join(r.dir, "objects", "[0-9a-f][0-9a-f]"))
	if err != nil {
		return nil, fmt.Errorf("repo: pack: %w", err)
	}
	for _, d := range dirs {
		files, err := os.ReadDir(d)
		if err != nil {
			return nil, fmt.Errorf("repo: pack: %w", err)
		}
		for _, f := range files {
			if id, ok := parseID(filepath.Base(d) + f.Name()); ok {
				out[id.hash()] = true
			}
		}
	}
	return out, nil
}

// Pack moves the objects in files of their own into one pack. Of a path that
// changed often, the newest is whole and each older one is told as a change of
// the next newer.
func (r *Repo) Pack(ctx context.Context) error {
	loose, err := r.looseObjects()
	if err != nil || len(loose) == 0 {
		return err
	}
	parcels, err := r.looseParcels(ctx, loose)
	if err != nil {
		return err
	}
	f, err := r.spool()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := r.writePack(ctx, f, parcels); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("repo: pack: %w", err)
	}
	if err := r.addPack(ctx, f); err != nil {
		return err
	}
	r.step("packed")
	for h := range loose {
		if err := os.Remove(r.loose(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("repo: pack: %w", err)
		}
	}
	r.load()
	return nil
}

// maxChain bounds how many changes one object is told as.
const maxChain = 200

// looseParcels finds for every loose object the newer one at the same path.
func (r *Repo) looseParcels(ctx context.Context, loose map[plumbing.Hash]bool) ([]parcel, error) {
	p := &pairing{loose: loose, base: make(map[plumbing.Hash]plumbing.Hash), kind: make(map[plumbing.Hash]plumbing.ObjectType), chain: make(map[plumbing.Hash]int)}
	from := make([]ID, 0, 8)
	for _, id := range r.refs("refs") {
		if c, err := r.peel(id); err == nil {
			from = append(from, c)
		}
	}
	err := r.ancestors(ctx, from, func(c commit) (next, error) {
		if !loose[c.id.hash()] {
			return leave, nil // what is packed was paired then
		}
		before, err := r.parentTree(c)
		if err != nil {
			return halt, err
		}
		p.pair(plumbing.TreeObject, before, c.tree)
		return goOn, r.diff(ctx, before, c.tree, func(_ string, before, after entry) error {
			if before.isDir() != after.isDir() || before.mode == filemode.Submodule || after.mode == filemode.Submodule {
				return nil
			}
			kind := plumbing.BlobObject
			if after.isDir() {
				kind = plumbing.TreeObject
			}
			p.pair(kind, before.hash, after.hash)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	out := make([]parcel, 0, len(loose))
	for h := range loose {
		kind := p.kind[h]
		if kind == 0 {
			o, err := r.store.EncodedObject(plumbing.AnyObject, h)
			if err != nil {
				return nil, damaged(err, "read %s", h)
			}
			kind = o.Type()
		}
		out = append(out, parcel{hash: h, base: p.base[h], kind: kind})
	}
	// Bases come first.
	slices.SortFunc(out, func(a, b parcel) int {
		return cmp.Or(cmp.Compare(p.chain[a.hash], p.chain[b.hash]), bytes.Compare(a.hash[:], b.hash[:]))
	})
	return out, nil
}

// pairing is which object is told as a change of which, without going in circles.
type pairing struct {
	loose map[plumbing.Hash]bool
	base  map[plumbing.Hash]plumbing.Hash
	kind  map[plumbing.Hash]plumbing.ObjectType
	chain map[plumbing.Hash]int // how many changes down to a whole object
}

func (p *pairing) pair(kind plumbing.ObjectType, older, newer plumbing.Hash) {
	p.kind[newer] = kind
	if !p.loose[older] || !p.loose[newer] || !p.base[older].IsZero() || p.chain[newer] >= maxChain {
		return
	}
	for at := newer; !at.IsZero(); at = p.base[at] {
		if at == older {
			return // content that came back
		}
	}
	p.kind[older] = kind
	p.base[older] = newer
	p.chain[older] = p.chain[newer] + 1
}
