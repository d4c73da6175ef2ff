package relay

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func TestBytesArriveBothWays(t *testing.T) {
	p := tlsPair(t, Config{})
	p.serve(t, echo)
	st, err := p.entry.Open(t.Context(), testHeader)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	want := random(5 << 20)
	var wg sync.WaitGroup
	wg.Go(func() {
		write(t, st, want)
		if err := st.CloseWrite(); err != nil {
			t.Error(err)
		}
	})
	got := readAll(t, st)
	wg.Wait()
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
	st.Close()
	eventually(t, "streams over", func() bool { return p.entry.Streams()+p.core.Streams() == 0 })
}

func TestHalfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{})
		entry, core := p.open(t)
		if err := entry.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, core); len(got) != 0 {
			t.Errorf("got %q", got)
		}
		if _, err := entry.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after FIN: %v", err)
		}
		time.Sleep(6 * time.Hour) // in the bubble: no timer ends a half-closed stream
		var wg sync.WaitGroup
		wg.Go(func() {
			write(t, core, make([]byte, 1<<20))
			core.Close()
		})
		if got := readAll(t, entry); len(got) != 1<<20 {
			t.Errorf("got %d bytes", len(got))
		}
		wg.Wait()
		entry.Close()
		synctest.Wait()
		if n := p.entry.Streams() + p.core.Streams(); n != 0 {
			t.Errorf("%d streams left", n)
		}
	})
}

func TestResetIsToldApartFromEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{})
		entry, core := p.open(t)
		write(t, entry, []byte("before"))
		synctest.Wait()
		entry.Reset(CodeRevoked)
		got, err := io.ReadAll(core)
		if string(got) != "before" || resetCodeOf(t, err) != CodeRevoked {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := core.Write([]byte("x")); resetCodeOf(t, err) != CodeRevoked {
			t.Errorf("write: %v", err)
		}
		if _, err := entry.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after own reset: %v", err)
		}
		core.Close()
		if n := p.entry.Streams() + p.core.Streams(); n != 0 {
			t.Errorf("%d streams left", n)
		}
	})
}

func TestClosedStreamDropsWhatStillComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{})
		entry, core := p.open(t)
		entry.Close()
		if got := readAll(t, core); len(got) != 0 {
			t.Errorf("got %q", got)
		}
		write(t, core, make([]byte, 100<<10)) // within the credit
		core.Close()
		synctest.Wait()
		if n := p.entry.Streams() + p.core.Streams(); n != 0 || p.entry.held.Load() != 0 {
			t.Errorf("%d streams, %d bytes left", n, p.entry.held.Load())
		}
	})
}

func TestClosedStreamDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{})
		entry, core := p.open(t)
		entry.Close()
		time.Sleep(2 * orphanAfter)
		if _, err := core.Write([]byte("x")); resetCodeOf(t, err) != CodeTimeout {
			t.Errorf("got %v", err)
		}
		core.Close()
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{Window: 1000, MaxWindow: 1000})
		entry, core := p.open(t)
		defer core.Close()
		defer entry.Close()
		start := time.Now()
		entry.SetReadDeadline(start.Add(time.Second))
		if _, err := entry.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(start))
		}
		entry.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := entry.Write(make([]byte, 3000)); n != 1000 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: %d, %v", n, err)
		}
		entry.SetDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			entry.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
		}()
		if _, err := entry.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("interrupted read: %v", err)
		}
		entry.SetDeadline(time.Time{})
		write(t, core, []byte("still usable"))
		if n, err := entry.Read(make([]byte, 100)); n != 12 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
	})
}

func TestRefusalReachesTheOpener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{})
		go func() {
			in, err := p.core.Accept(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			if in.Header() != testHeader {
				t.Errorf("header %+v", in.Header())
			}
			if err := in.Refuse(CodeUnreachable, true, "no\nroute\x00 to "+string(make([]byte, 300))); err != nil {
				t.Error(err)
			}
			if _, err := in.Accept(); err == nil {
				t.Error("accepted after refusal")
			}
		}()
		_, err := p.entry.Open(t.Context(), testHeader)
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || *refused != (RefusedError{CodeUnreachable, true, "noroute to "}) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if n := p.entry.Streams() + p.core.Streams(); n != 0 {
			t.Errorf("%d streams left", n)
		}
	})
}

func TestCanceledOpenIsGivenUpAtTheCore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{})
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("client left")
		go func() {
			in, err := p.core.Accept(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			dialing, stop := in.Context(context.Background())
			defer stop()
			cancel(cause)
			<-dialing.Done()
			if _, err := in.Accept(); resetCodeOf(t, err) != CodeCanceled {
				t.Errorf("accept: %v", err)
			}
		}()
		if _, err := p.entry.Open(ctx, testHeader); err != cause {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if n := p.entry.Streams() + p.core.Streams(); n != 0 {
			t.Errorf("%d streams left", n)
		}
	})
}
