package repo

import (
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// writePack writes a pack of the objects. Each is read, checked against its
// name and let go again, so that memory holds two at a time. An object with a
// base is told as a change of it where that is shorter: a folder of ten
// thousand files of which one changed is 400 KB whole, and 60 bytes as a change.
//
// (go-git's encoder looks for bases among objects of a like size, which finds
// none for us, and holds all of them.)
func (r *Repo) writePack(ctx context.Context, w io.Writer, parcels []parcel) error {
	sum := sha1.New() //nolint:gosec // the format's checksum
	p := newPackWriter(io.MultiWriter(w, sum))
	if _, err := p.Write(packHead(len(parcels))); err != nil {
		return fmt.Errorf("repo: pack: %w", err)
	}
	for _, o := range parcels {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := p.n
		if err := r.packOne(p, o); err != nil {
			return fmt.Errorf("repo: pack: %w", err)
		}
		p.at[o.hash] = at
	}
	if _, err := w.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("repo: pack: %w", err)
	}
	return nil
}

func packHead(objects int) []byte {
	head := []byte("PACK\x00\x00\x00\x02")
	return binary.BigEndian.AppendUint32(head, uint32(objects))
}

// tooSmall is the size from which on a change is worth looking for.
const tooSmall = 256

func (r *Repo) packOne(p *packWriter, o parcel) error {
	data, err := r.read(o.kind, o.hash)
	if err != nil {
		return err
	}
	if o.base.IsZero() || len(data) < tooSmall {
		return p.entry(o.kind, nil, data)
	}
	base, err := r.read(o.kind, o.base)
	if err != nil {
		return err
	}
	if len(base) < tooSmall {
		return p.entry(o.kind, nil, data)
	}
	delta := packfile.DiffDelta(base, data)
	if len(delta) >= len(data)/2 {
		return p.entry(o.kind, nil, data)
	}
	if at, ok := p.at[o.base]; ok {
		return p.entry(plumbing.OFSDeltaObject, distance(p.n-at), delta)
	}
	return p.entry(plumbing.REFDeltaObject, o.base[:], delta)
}

// distance is how far back a base is, as packs write it.
func distance(n int64) []byte {
	out := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		out = append([]byte{byte(n&0x7f) | 0x80}, out...)
	}
	return out
}

// packWriter writes the entries of a pack and knows where each is: a base in
// the same pack is told by its distance, since go-git does not find one by name
// that is told as a change itself.
type packWriter struct {
	w  io.Writer
	z  *zlib.Writer
	n  int64 // bytes written
	at map[plumbing.Hash]int64
}

func newPackWriter(w io.Writer) *packWriter {
	p := &packWriter{w: w, at: make(map[plumbing.Hash]int64)}
	p.z = zlib.NewWriter(p)
	return p
}

func (p *packWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.n += int64(n)
	return n, err
}

// entry writes kind and size, the base of a change, and the content.
func (p *packWriter) entry(kind plumbing.ObjectType, base, data []byte) error {
	size := uint64(len(data))
	head := []byte{byte(kind)<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(size&0x7f))
	}
	if _, err := p.Write(append(head, base...)); err != nil {
		return err
	}
	p.z.Reset(p)
	if _, err := p.z.Write(data); err != nil {
		return err
	}
	return p.z.Close()
}
