package repo

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
)

// mergeIfMany makes one of the smaller packs when there are many, since each
// lookup asks every one. The large ones are seldom touched.
func (r *Repo) mergeIfMany(ctx context.Context) error {
	packs, err := filepath.Glob(filepath.Join(r.dir, "objects/pack/pack-*.pack"))
	if err != nil || len(packs) <= r.opts.Limits.Packs {
		return err
	}
	sizes := make(map[string]int64, len(packs))
	for _, p := range packs {
		st, err := os.Stat(p)
		if err != nil {
			return fmt.Errorf("repo: merge packs: %w", err)
		}
		sizes[p] = st.Size()
	}
	slices.SortFunc(packs, func(a, b string) int { return int(sizes[a] - sizes[b]) })
	if err := r.mergePacks(ctx, packs[:max(2, len(packs)*2/3)]); err != nil {
		return fmt.Errorf("repo: merge packs: %w", err)
	}
	return nil
}

// mergePacks writes the entries of packs behind each other. None is unpacked: a
// change tells its base by the distance, which stays.
func (r *Repo) mergePacks(ctx context.Context, packs []string) error {
	m := &merger{index: new(idxfile.Writer), seen: make(map[plumbing.Hash]bool)}
	if err := m.plan(packs); err != nil {
		return err
	}
	if err := r.removePacks(m.spare); err != nil || len(m.parts) < 2 {
		return err
	}
	// A file of that name is removed by the next start, if this one ends here.
	f, err := os.Create(filepath.Join(r.dir, "objects/pack/tmp_merged_pack"))
	if err != nil {
		return err
	}
	sum, err := m.write(ctx, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	r.step("merged")
	base := filepath.Join(r.dir, "objects/pack/pack-"+hex.EncodeToString(sum))
	if err := m.place(f.Name(), base, sum); err != nil {
		return err
	}
	r.step("merge placed")
	return r.removePacks(m.parts)
}

// removePacks removes packs whose objects are in others.
func (r *Repo) removePacks(packs []part) error {
	for _, p := range packs {
		// What is left of one when this ends here, the next start removes.
		if err := errors.Join(os.Remove(p.path), os.Remove(indexPath(p.path))); err != nil {
			return err
		}
		r.step("merge removed")
	}
	r.load()
	return nil
}

type merger struct {
	parts []part
	spare []part // wholly in others
	count int
	index *idxfile.Writer
	seen  map[plumbing.Hash]bool
}

// part is a pack whose entries are taken over.
type part struct {
	path    string
	count   int
	size    int64
	entries []idxfile.Entry
}

func indexPath(pack string) string { return strings.TrimSuffix(pack, ".pack") + ".idx" }

// plan reads the indexes, the largest first. A pack with an object that another
// has too stays, and one with nothing else is spare.
func (m *merger) plan(packs []string) error {
	for _, path := range slices.Backward(packs) {
		p, err := readIndex(path)
		if err != nil {
			return err
		}
		known := 0
		for _, e := range p.entries {
			if m.seen[e.Hash] {
				known++
			}
		}
		switch {
		case known == p.count:
			m.spare = append(m.spare, p)
			continue
		case known > 0:
			continue
		}
		for _, e := range p.entries {
			m.seen[e.Hash] = true
		}
		m.parts = append(m.parts, p)
		m.count += p.count
	}
	return nil
}

func openIndex(pack string) (*idxfile.MemoryIndex, error) {
	f, err := os.Open(indexPath(pack))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	idx := idxfile.NewMemoryIndex()
	if err := idxfile.NewDecoder(f).Decode(idx); err != nil {
		return nil, damaged(err, "read %s", indexPath(pack))
	}
	return idx, nil
}

func readIndex(pack string) (part, error) {
	idx, err := openIndex(pack)
	if err != nil {
		return part{}, err
	}
	st, err := os.Stat(pack)
	if err != nil {
		return part{}, err
	}
	p := part{path: pack, size: st.Size()}
	it, err := idx.Entries()
	if err != nil {
		return part{}, err
	}
	defer it.Close()
	for {
		e, err := it.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return part{}, err
		}
		p.entries = append(p.entries, *e)
	}
	p.count = len(p.entries)
	return p, nil
}

// write writes the new pack and returns its checksum.
func (m *merger) write(ctx context.Context, f io.Writer) ([]byte, error) {
	if err := m.index.OnHeader(uint32(m.count)); err != nil {
		return nil, err
	}
	sum := sha1.New()
	at := int64(12)
	if _, err := io.MultiWriter(f, sum).Write(packHead(m.count)); err != nil {
		return nil, err
	}
	for i := range m.parts {
		p := &m.parts[i]
		if err := p.copyTo(ctx, f, sum); err != nil {
			return nil, err
		}
		for _, e := range p.entries {
			m.index.Add(e.Hash, uint64(int64(e.Offset)-12+at), e.CRC32)
		}
		at += p.size - 12 - 20
		p.entries = nil
	}
	_, err := f.Write(sum.Sum(nil))
	return sum.Sum(nil), err
}

// copyTo copies the entries alone, once the head says that all are in the index.
func (p *part) copyTo(ctx context.Context, f io.Writer, sum hash.Hash) error {
	src, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer src.Close()
	var head [12]byte
	if _, err := io.ReadFull(src, head[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(head[8:]) != uint32(p.count) {
		return damaged(errors.New("its index does not name all of it"), "read %s", p.path)
	}
	body := io.LimitReader(src, p.size-12-20)
	_, err = io.Copy(io.MultiWriter(f, sum), &stopReader{ctx, body, func() {}})
	return err
}

// place puts index and pack into the clone, in the order in which a reader may
// find them.
func (m *merger) place(pack, base string, sum []byte) error {
	if err := m.index.OnFooter(plumbing.Hash(sum)); err != nil {
		return err
	}
	idx, err := m.index.Index()
	if err != nil {
		return err
	}
	index, err := os.Create(filepath.Join(filepath.Dir(base), "tmp_merged_idx"))
	if err != nil {
		return err
	}
	_, err = idxfile.NewEncoder(index).Encode(idx)
	if err = errors.Join(err, index.Close()); err != nil {
		return err
	}
	if err := os.Rename(index.Name(), base+".idx"); err != nil {
		return err
	}
	return os.Rename(pack, base+".pack")
}
