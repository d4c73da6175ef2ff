package relay

import (
	"io"
	"net"
)

// batch is a few received chunks on their way out, written by one call where w can do that.
type batch struct {
	chunks []*chunk
	space  [maxBatch]*chunk
	slices [maxBatch][]byte
	bufs   net.Buffers
}

// take gets what is queued. Without chunks and error, there is nothing at the moment.
func (b *batch) take(q *recvQueue) (err error) {
	b.chunks, err = q.take(b.space[:0])
	return err
}

func (b *batch) writeTo(w io.Writer) (int64, error) {
	b.bufs = b.slices[:0]
	for _, c := range b.chunks {
		b.bufs = append(b.bufs, c.bytes())
	}
	return b.bufs.WriteTo(w)
}

// free gives the chunks back and returns how many bytes they held.
func (b *batch) free() (n int) {
	for i, c := range b.chunks {
		n += len(c.bytes())
		c.free()
		b.chunks[i], b.slices[i] = nil, nil
	}
	b.chunks = nil
	return n
}
