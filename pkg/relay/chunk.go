package relay

import "sync"

// chunk is a piece of received bytes: b[r:w] is still to be read.
type chunk struct {
	b    []byte
	r, w int
	pool *sync.Pool
}

func (c *chunk) bytes() []byte { return c.b[c.r:c.w] }

func (c *chunk) fill(p []byte) int {
	n := copy(c.b[c.w:], p)
	c.w += n
	return n
}

func (c *chunk) free() {
	c.r, c.w = 0, 0
	c.pool.Put(c)
}

// Pools of memory that all sessions share. They hold free memory and nothing else.
var (
	chunkSizes = [...]int{1 << 10, 4 << 10, maxPayload}
	chunkPools = [...]*sync.Pool{newChunkPool(0), newChunkPool(1), newChunkPool(2)}
	outPool    = sync.Pool{New: func() any { return new(make([]byte, 0, outCap+outSlack)) }}
	batchPool  = sync.Pool{New: func() any { return new(batch) }}
	copyPool   = sync.Pool{New: func() any { return new([copySize]byte) }}
)

func newChunkPool(class int) *sync.Pool {
	p := new(sync.Pool)
	p.New = func() any { return &chunk{b: make([]byte, chunkSizes[class]), pool: p} }
	return p
}

// newChunk returns an empty chunk with room for n bytes, at most maxPayload.
func newChunk(n int) *chunk {
	for class, size := range chunkSizes {
		if n <= size {
			return chunkPools[class].Get().(*chunk)
		}
	}
	panic("relay: chunk larger than a frame")
}
