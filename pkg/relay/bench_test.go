package relay

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
)

// BenchmarkOpen is a stream's whole life over loopback TLS, many at once.
func BenchmarkOpen(b *testing.B) {
	p := tlsPair(b, Config{})
	p.serve(b, func(st *Stream) { st.Close() })
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			st, err := p.entry.Open(context.Background(), testHeader)
			if err != nil {
				b.Error(err)
				return
			}
			st.Close()
		}
	})
}

// BenchmarkStream is what streams of one session carry from core to entry over loopback TLS.
func BenchmarkStream(b *testing.B) {
	for _, streams := range []int{1, 64} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			p := tlsPair(b, Config{})
			buf := make([]byte, copySize)
			p.serve(b, func(st *Stream) {
				for {
					if _, err := st.Write(buf); err != nil {
						st.Close()
						return
					}
				}
			})
			readers := make([]*Stream, streams)
			for i := range readers {
				st, err := p.entry.Open(context.Background(), testHeader)
				if err != nil {
					b.Fatal(err)
				}
				readers[i] = st
			}
			b.SetBytes(1 << 20)
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, st := range readers {
				wg.Go(func() { drain(b, st, int64(b.N)<<20/int64(streams)) })
			}
			wg.Wait()
			b.StopTimer()
			for _, st := range readers {
				st.Reset(CodeCanceled)
			}
		})
	}
}

// drain reads n bytes as Join does, without copying them.
func drain(b *testing.B, st *Stream, n int64) {
	w := &limit{left: n}
	if _, err := st.WriteTo(w); err != io.ErrShortWrite && n > 0 {
		b.Error(err)
	}
}

type limit struct{ left int64 }

func (l *limit) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left <= 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// BenchmarkJoin is the whole path of one connection: TCP, entry, session, core, TCP.
func BenchmarkJoin(b *testing.B) {
	p := tlsPair(b, Config{})
	client, atEntry := tcpConns(b)
	atCore, destination := tcpConns(b)
	entry, core := p.open(b)
	var wg sync.WaitGroup
	wg.Go(func() { Join(context.Background(), atEntry, entry, nil) })
	wg.Go(func() { Join(context.Background(), core, atCore, nil) })
	wg.Go(func() { io.Copy(destination, io.LimitReader(zeros{}, int64(b.N)<<20)); destination.Close() })
	b.SetBytes(1 << 20)
	if n, err := io.Copy(io.Discard, struct{ io.Reader }{client}); n != int64(b.N)<<20 {
		b.Error(n, err)
	}
	client.Close()
	wg.Wait()
}

// BenchmarkIdle reports what a joined connection costs at rest, entry and core together.
func BenchmarkIdle(b *testing.B) {
	const n = 500
	p := tlsPair(b, Config{})
	before := memory()
	var conns []net.Conn
	var wg sync.WaitGroup
	for range n {
		client, atEntry := tcpConns(b)
		atCore, destination := tcpConns(b)
		entry, core := p.open(b)
		wg.Go(func() { Join(context.Background(), atEntry, entry, nil) })
		wg.Go(func() { Join(context.Background(), core, atCore, nil) })
		for _, c := range []net.Conn{client, destination} {
			write(b, c, make([]byte, 8<<10))
		}
		for _, c := range []net.Conn{client, destination} {
			if _, err := io.ReadFull(c, make([]byte, 8<<10)); err != nil {
				b.Fatal(err)
			}
		}
		conns = append(conns, client, destination)
	}
	for b.Loop() {
	}
	b.ReportMetric(float64(memory()-before)/n/1024, "KiB/conn")
	for _, c := range conns {
		c.Close()
	}
	wg.Wait()
}

// memory returns heap and stacks in use.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
