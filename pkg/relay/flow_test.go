package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// E-15: clients that read slowly hold their window and no more, and the others do not notice.
func TestSlowReadersHoldTheirWindowAndStallNobody(t *testing.T) {
	const slow = 100
	p := tlsPair(t, Config{})
	var writers sync.WaitGroup
	p.serve(t, func(st *Stream) {
		writers.Go(func() { io.Copy(st, zeros{}) })
		writers.Wait()
		st.Close()
	})
	var stuck []*Stream
	for range slow {
		st, err := p.entry.Open(t.Context(), testHeader)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Reset(CodeCanceled)
		stuck = append(stuck, st)
	}
	full := int64(slow * 128 << 10)
	eventually(t, "all windows full", func() bool { return p.entry.held.Load() == full })
	for _, st := range stuck { // they do read, 1 KiB each
		if _, err := io.ReadFull(st, make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
	}
	fast, err := p.entry.Open(t.Context(), testHeader)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.CopyN(io.Discard, fast, 64<<20); err != nil {
		t.Fatalf("after %d bytes: %v", n, err)
	}
	fast.Reset(CodeCanceled)
	if held := p.entry.held.Load(); held > full {
		t.Errorf("%d bytes held, %d granted", held, full)
	}
	for _, st := range stuck {
		if w := st.recv.win; w.size != w.initial {
			t.Errorf("window of a slow stream is %d", w.size)
		}
	}
}

func TestTinyFramesDoNotHoldWholeChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{})
		entry, core := p.open(t)
		defer core.Reset(CodeCanceled)
		defer entry.Reset(CodeCanceled)
		for range 20000 {
			write(t, entry, []byte("x"))
		}
		synctest.Wait()
		memory := 0
		for _, c := range core.recv.chunks {
			memory += len(c.b)
		}
		if memory > 24<<10 {
			t.Errorf("%d bytes held for 20,000", memory)
		}
	})
}

// Windows were granted beyond what the session may hold: the stream that holds most has to go.
func TestFullestStreamIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{Budget: 200 << 10})
		var entries, cores []*Stream
		for range 5 {
			entry, core := p.open(t)
			entries, cores = append(entries, entry), append(cores, core)
		}
		for _, kib := range []int{60, 75, 120, 90, 80} { // 425 in all, 400 allowed
			write(t, entries[0], make([]byte, kib<<10))
			entries = append(entries[1:], entries[0])
		}
		synctest.Wait()
		if held := p.core.held.Load(); held > 400<<10 {
			t.Errorf("%d bytes held", held)
		}
		for i, st := range entries {
			_, err := st.Write([]byte("x"))
			if fullest := i == 2; fullest != (err != nil) {
				t.Errorf("stream %d: %v", i, err)
			}
		}
		if _, err := cores[2].Read(make([]byte, 1)); resetCodeOf(t, err) != CodeLimit {
			t.Errorf("got %v", err)
		}
		for _, st := range append(entries, cores...) {
			st.Close()
		}
	})
}

// Both connections are full in both directions: credit and pings still get through.
func TestFullConnectionsDoNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{}) // a pipe has no buffer at all
		var wg sync.WaitGroup
		for range 20 {
			entry, core := p.open(t)
			for _, st := range []*Stream{entry, core} {
				wg.Go(func() { write(t, st, make([]byte, 2<<20)); st.CloseWrite() })
				wg.Go(func() {
					if n, err := io.Copy(io.Discard, st); n != 2<<20 || err != nil {
						t.Errorf("got %d, %v", n, err)
					}
				})
			}
			defer entry.Close()
			defer core.Close()
		}
		wg.Wait()
	})
}

func TestBulkWritersTakeTurns(t *testing.T) {
	p := tlsPair(t, Config{})
	var counts [4]atomic.Int64
	var wg sync.WaitGroup
	for i := range counts {
		entry, core := p.open(t)
		wg.Go(func() { io.Copy(core, zeros{}) })
		wg.Go(func() { entry.copyTo(io.Discard, &tally{shared: &counts[i]}) })
		defer entry.Reset(CodeCanceled)
		defer core.Reset(CodeCanceled)
	}
	eventually(t, "16 MiB on one stream", func() bool { return counts[0].Load() > 16<<20 })
	for i := range counts {
		if n := counts[i].Load(); n < 2<<20 {
			t.Errorf("stream %d got %d bytes", i, n)
		}
	}
	p.cancel(nil)
	wg.Wait()
}

func TestThousandsOfStreams(t *testing.T) {
	const n = 2000
	p := tlsPair(t, Config{})
	p.serve(t, echo)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			st, err := p.entry.Open(t.Context(), testHeader)
			if err != nil {
				t.Error(err)
				return
			}
			defer st.Close()
			want := random(3000)
			write(t, st, want)
			st.CloseWrite()
			if got, err := io.ReadAll(st); err != nil || !bytes.Equal(got, want) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
	wg.Wait()
	eventually(t, "all over", func() bool { return p.entry.Streams()+p.core.Streams() == 0 })
	if held, left := p.entry.held.Load()+p.core.held.Load(), p.core.budget.left.Load(); held != 0 || left != 64<<20 {
		t.Errorf("%d bytes held, %d of the budget left", held, left)
	}
}

func TestStreamLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{MaxStreams: 2})
		e1, c1 := p.open(t)
		e2, c2 := p.open(t)
		_, err := p.entry.Open(t.Context(), testHeader)
		if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Code != CodeLimit || !refused.Retryable {
			t.Errorf("got %v", err)
		}
		if p.entry.Ready() {
			t.Error("ready though full")
		}
		e1.Close()
		c1.Close()
		synctest.Wait()
		if !p.entry.Ready() {
			t.Error("not ready though there is room")
		}
		e2.Close()
		c2.Close()
	})
}

func TestWindowFollowsTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rtt = 50 * time.Millisecond
		b := new(budget)
		b.give(1 << 20)
		w := &window{size: 100, open: 100, initial: 100, max: 1000}
		pass := func(read int) int { // what was granted arrives, and read bytes of it are read
			w.receive(w.open)
			return w.read(read, rtt, b)
		}
		for range 20 { // the reader reads all it gets within a round trip
			time.Sleep(rtt)
			pass(w.held + w.open)
		}
		if w.size != 1000 || b.left.Load() != 1<<20-900 {
			t.Errorf("grown to %d, %d left", w.size, b.left.Load())
		}
		for range 40 { // the reader is always behind
			pass(w.size / 10)
		}
		if w.size != 100 || b.left.Load() != 1<<20 {
			t.Errorf("shrunk to %d, %d left", w.size, b.left.Load())
		}
		if w.open+w.held > 1000 {
			t.Errorf("open %d, held %d", w.open, w.held)
		}
		for range 20 { // fast, but seldom: the window is not what limits it
			time.Sleep(time.Second)
			pass(w.held + w.open)
		}
		if w.size != 100 {
			t.Errorf("grown to %d", w.size)
		}
		poor := new(budget)
		for range 20 {
			w.receive(w.open)
			w.read(w.held, rtt, poor)
		}
		if w.size != 100 {
			t.Errorf("grown to %d without budget", w.size)
		}
	})
}

func TestRestingWindowGivesBackItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{})
		entry, core := p.open(t)
		defer entry.Close()
		defer core.Close()
		var wg sync.WaitGroup
		wg.Go(func() { write(t, core, make([]byte, 8<<20)) })
		if _, err := io.CopyN(io.Discard, entry, 8<<20); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if left := p.entry.budget.left.Load(); left == 64<<20 {
			t.Error("the window of a fast stream did not grow")
		}
		time.Sleep(3 * restAfter)
		if left := p.entry.budget.left.Load(); left != 64<<20 {
			t.Errorf("%d left", left)
		}
	})
}

func TestGoodbyeLetsOpenStreamsFinish(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sayer func(*pair) *Session
	}{
		{"the core drains", func(p *pair) *Session { return p.core }},
		{"the entry drains", func(p *pair) *Session { return p.entry }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pipePair(t, Config{})
				entry, core := p.open(t)
				tt.sayer(p).Goodbye(CodeDraining)
				synctest.Wait()
				if p.entry.Ready() {
					t.Error("still ready")
				}
				if _, err := p.entry.Open(t.Context(), testHeader); err == nil {
					t.Error("opened a stream after goodbye")
				}
				time.Sleep(time.Hour)
				write(t, entry, []byte("still there"))
				entry.CloseWrite()
				if got := readAll(t, core); string(got) != "still there" {
					t.Errorf("got %q", got)
				}
				core.Close()
				synctest.Wait() // the peer may close the connection before this side has closed its stream
				entry.Close()
				if entryErr, coreErr := p.wait(); entryErr != nil || coreErr != nil {
					t.Errorf("ended with %v and %v", entryErr, coreErr)
				}
			})
		})
	}
}

func TestEndOfContextTellsThePeerWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{})
		entry, core := p.open(t)
		opening := make(chan error)
		go func() {
			_, err := p.entry.Open(context.Background(), testHeader) // nobody accepts
			opening <- err
		}()
		synctest.Wait()
		p.core.kill(CodeRevoked)
		if _, err := entry.Read(make([]byte, 1)); resetCodeOf(t, err) != CodeRevoked {
			t.Errorf("entry: %v", err)
		}
		if _, err := core.Read(make([]byte, 1)); resetCodeOf(t, err) != CodeRevoked {
			t.Errorf("core: %v", err)
		}
		if err := <-opening; resetCodeOf(t, err) != CodeRevoked {
			t.Errorf("opening: %v", err)
		}
		if entryErr, coreErr := p.wait(); entryErr == nil || coreErr == nil {
			t.Errorf("ended with %v and %v", entryErr, coreErr)
		}
		if _, err := p.core.Accept(t.Context()); err == nil {
			t.Error("accepted after the end")
		}
		entry.Close()
		core.Close()
	})
}

// What had arrived, a FIN included, is not lost with the session.
func TestArrivedBytesOutliveTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		p := run(t, a, b, Config{})
		done, doneCore := p.open(t)
		cut, cutCore := p.open(t)
		write(t, doneCore, []byte("whole"))
		doneCore.CloseWrite()
		write(t, cutCore, []byte("part"))
		synctest.Wait()
		b.Close()
		if got := readAll(t, done); string(got) != "whole" {
			t.Errorf("got %q", got)
		}
		if got, err := io.ReadAll(cut); string(got) != "part" || resetCodeOf(t, err) != CodeLost {
			t.Errorf("got %q, %v", got, err)
		}
		for _, st := range []*Stream{done, doneCore, cut, cutCore} {
			st.Close()
		}
	})
}
