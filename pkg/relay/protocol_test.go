package relay

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// rawPeer speaks frames to a session by hand and remembers what the session says.
type rawPeer struct {
	conn net.Conn
	mu   sync.Mutex
	got  []rawFrame
}

type rawFrame struct {
	typ     byte
	stream  uint32
	payload string
}

func (f rawFrame) bytes() []byte {
	return append(appendFrame(nil, f.typ, f.stream, len(f.payload)), f.payload...)
}

var (
	rawHello = rawFrame{typeHello, 0, "\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00"}
	rawOpen  = rawFrame{typeOpen, 1, func() string { b, _ := testHeader.Marshal(); return string(b) }()}
)

// facing runs a session over one end of a pipe and returns a raw peer at the other. For use in a
// bubble.
func facing(t *testing.T, make func(net.Conn, Config) *Session, cfg Config) (*Session, *rawPeer, func() error) {
	a, b := net.Pipe()
	s, p := make(a, cfg), &rawPeer{conn: b}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = s.Run(ctx) })
	wg.Go(p.read)
	t.Cleanup(func() { cancel(); b.Close(); wg.Wait() })
	return s, p, func() error { <-s.Done(); b.Close(); wg.Wait(); return err }
}

func (p *rawPeer) read() {
	header := make([]byte, headerLen)
	for {
		if _, err := io.ReadFull(p.conn, header); err != nil {
			return
		}
		f := parseFrame(header)
		payload := make([]byte, f.length)
		if _, err := io.ReadFull(p.conn, payload); err != nil {
			return
		}
		p.mu.Lock()
		p.got = append(p.got, rawFrame{f.typ, f.stream, string(payload)})
		p.mu.Unlock()
	}
}

// say sends frames. The session may hang up in the middle of them.
func (p *rawPeer) say(frames ...rawFrame) {
	for _, f := range frames {
		p.conn.Write(f.bytes())
	}
	synctest.Wait()
}

func (p *rawPeer) heard(want rawFrame) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.got, want)
}

func TestPeerThatBreaksTheProtocolIsLeft(t *testing.T) {
	data := rawFrame{typeData, 1, "x"}
	for _, tt := range []struct {
		name   string
		frames []rawFrame // a HELLO comes before them if they do not begin with one
		accept bool       // streams are accepted
	}{
		{"no hello", []rawFrame{{typePing, 0, "12345678"}}, false},
		{"hello twice", []rawFrame{rawHello, rawHello}, false},
		{"hello too short", []rawFrame{{typeHello, 0, "1234"}}, false},
		{"hello on a stream", []rawFrame{{typeHello, 1, rawHello.payload}}, false},
		{"window beyond 16 MiB", []rawFrame{{typeHello, 0, "\x01\x00\x00\x01\x00\x00\x01\x00\x00\x00\x00\x00"}}, false},
		{"unknown type", []rawFrame{rawHello, {99, 0, ""}}, false},
		{"type 0", []rawFrame{rawHello, {0, 0, ""}}, false},
		{"frame beyond 16 KiB", []rawFrame{rawHello, {200, 0, strings.Repeat("x", maxPayload+1)}}, false},
		{"open on stream 0", []rawFrame{rawHello, {typeOpen, 0, rawOpen.payload}}, false},
		{"open beyond 4 KiB", []rawFrame{rawHello, {typeOpen, 1, strings.Repeat("x", maxOpen+1)}}, false},
		{"stream number used again", []rawFrame{rawHello, rawOpen, rawOpen}, true},
		{"stream numbers going down", []rawFrame{rawHello, {typeOpen, 9, rawOpen.payload}, {typeOpen, 8, rawOpen.payload}}, true},
		{"data before accept", []rawFrame{rawHello, rawOpen, data}, false},
		{"fin before accept", []rawFrame{rawHello, rawOpen, {typeFin, 1, ""}}, false},
		{"data on a stream never opened", []rawFrame{rawHello, {typeData, 7, "x"}}, false},
		{"credit on a stream never opened", []rawFrame{rawHello, {typeCredit, 7, "\x00\x00\x00\x01"}}, false},
		{"data without bytes", []rawFrame{rawHello, rawOpen, {typeData, 1, ""}}, true},
		{"data after fin", []rawFrame{rawHello, rawOpen, {typeFin, 1, ""}, data}, true},
		{"fin twice", []rawFrame{rawHello, rawOpen, {typeFin, 1, ""}, {typeFin, 1, ""}}, true},
		{"fin with payload", []rawFrame{rawHello, rawOpen, {typeFin, 1, "x"}}, true},
		{"accept from the entry", []rawFrame{rawHello, rawOpen, {typeAccept, 1, ""}}, true},
		{"refusal from the entry", []rawFrame{rawHello, rawOpen, {typeRefuse, 1, "\x01\x01"}}, true},
		{"credit beyond 16 MiB", []rawFrame{rawHello, rawOpen, {typeCredit, 1, "\x01\x00\x00\x00"}}, true},
		{"credit of 4 GiB", []rawFrame{rawHello, rawOpen, {typeCredit, 1, "\xff\xff\xff\xff"}}, true},
		{"data beyond the credit", []rawFrame{rawHello, rawOpen,
			{typeData, 1, strings.Repeat("x", 1000)}, {typeData, 1, strings.Repeat("x", 1000)}, data}, true},
		{"ping on a stream", []rawFrame{rawHello, {typePing, 1, "12345678"}}, false},
		{"short ping", []rawFrame{rawHello, {typePing, 0, "1"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p, wait := facing(t, Server, Config{Window: 2000, MaxWindow: 2000})
				if tt.accept {
					go acceptAll(s)
				}
				p.say(tt.frames...)
				err := wait()
				if _, ok := errors.AsType[protocolError](err); !ok {
					t.Errorf("ended with %v", err)
				}
				if !p.heard(rawFrame{typeGoodbye, 0, string([]byte{byte(CodeProtocol)})}) {
					t.Errorf("peer was not told: %v", p.got)
				}
			})
		})
	}
}

func acceptAll(s *Session) {
	for {
		in, err := s.Accept(context.Background())
		if err != nil {
			return
		}
		in.Accept()
	}
}

func TestCoreThatBreaksTheProtocolIsLeft(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frames []rawFrame
	}{
		{"open from the core", []rawFrame{rawHello, rawOpen}},
		{"accept of a stream never opened", []rawFrame{rawHello, {typeAccept, 2, ""}}},
		{"accept twice", []rawFrame{rawHello, {typeAccept, 1, ""}, {typeAccept, 1, ""}}},
		{"refusal after accept", []rawFrame{rawHello, {typeAccept, 1, ""}, {typeRefuse, 1, "\x01\x01"}}},
		{"refusal without code", []rawFrame{rawHello, {typeRefuse, 1, ""}}},
		{"data before accept", []rawFrame{rawHello, {typeData, 1, "x"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p, wait := facing(t, Client, Config{})
				go s.Open(context.Background(), testHeader)
				synctest.Wait()
				p.say(tt.frames...)
				if _, ok := errors.AsType[protocolError](wait()); !ok {
					t.Errorf("ended with %v", s.Err())
				}
			})
		})
	}
}

func TestWhatIsNoBreachIsTolerated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, _ := facing(t, Server, Config{Window: 2000, MaxWindow: 2000})
		go acceptAll(s)
		p.say(
			rawFrame{typeHello, 0, rawHello.payload + "more, from a later version"},
			rawFrame{typeReserved, 77, "a type of a later version"},
			rawFrame{255, 0, ""},
			rawOpen, rawFrame{typeReset, 1, "\x01"},
			rawFrame{typeData, 1, "sent before the end was known"}, rawFrame{typeCredit, 1, "\x00\x00\x00\x01"},
			rawFrame{typeFin, 1, ""}, rawFrame{typeReset, 1, "\x01"},
			rawFrame{typePong, 0, "no ping!"},
			rawFrame{typeOpen, 500, rawOpen.payload},
			rawFrame{typePing, 0, "12345678"},
		)
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		for _, want := range []rawFrame{{typeAccept, 500, ""}, {typePong, 0, "12345678"}} {
			if !p.heard(want) {
				t.Errorf("did not hear %v in %v", want, p.got)
			}
		}
	})
}

func TestBadHeaderIsRefusedAndTheSessionGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, _ := facing(t, Server, Config{MaxStreams: 2})
		p.say(rawHello,
			rawFrame{typeOpen, 1, "sixteen bytes or more"},
			rawFrame{typeOpen, 2, rawOpen.payload}, rawFrame{typeOpen, 3, rawOpen.payload},
			rawFrame{typeOpen, 4, rawOpen.payload})
		p.mu.Lock()
		defer p.mu.Unlock()
		refused := map[uint32]byte{}
		for _, f := range p.got {
			if f.typ == typeRefuse {
				refused[f.stream] = f.payload[0]
			}
		}
		if len(refused) != 2 || Code(refused[1]) != CodeBadHeader || Code(refused[4]) != CodeLimit {
			t.Errorf("refused %v", refused)
		}
		if s.Streams() != 2 {
			t.Errorf("%d streams", s.Streams())
		}
	})
}

// A peer that opens and resets streams without end, while nobody accepts them, fills the queue and
// no more.
func TestStreamsGivenUpUnseenStayBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, _ := facing(t, Server, Config{MaxStreams: 10})
		p.say(rawHello)
		for i := uint32(1); i < 1000; i++ {
			p.say(rawFrame{typeOpen, i, rawOpen.payload}, rawFrame{typeReset, i, "\x01"})
		}
		if s.Streams() > 10 || len(s.incoming) > 10 {
			t.Errorf("%d streams, %d queued", s.Streams(), len(s.incoming))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("accepted a stream that was given up: %v", err)
		}
		if s.Streams() != 0 {
			t.Errorf("%d streams left", s.Streams())
		}
	})
}

// A peer that sends and never reads makes the session hold a bounded number of answers.
func TestPeerThatNeverReadsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		s := Server(a, Config{MaxStreams: 4})
		var wg sync.WaitGroup
		wg.Go(func() { s.Run(context.Background()) })
		go acceptAll(s)
		b.Write(rawHello.bytes())
		for i := uint32(1); !isClosed(s.Done()); i++ {
			b.Write(rawFrame{typePing, 0, "12345678"}.bytes())
			b.Write(rawFrame{typeOpen, i, rawOpen.payload}.bytes())
			b.Write(rawFrame{typeReset, i, "\x01"}.bytes())
		}
		if len(*s.out) > 1<<20 {
			t.Errorf("%d bytes held", len(*s.out))
		}
		wg.Wait()
		if _, ok := errors.AsType[protocolError](s.Err()); !ok {
			t.Errorf("ended with %v", s.Err())
		}
	})
}

// C-03, E-10 (d): a peer that is gone without a word is noticed within 45 s, whether this side has
// something to say or not.
func TestDeadPeerIsNoticed(t *testing.T) {
	for _, writes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, p, wait := facing(t, Client, Config{})
			opened := make(chan *Stream, 1)
			go func() {
				st, err := s.Open(context.Background(), testHeader)
				if err != nil {
					t.Error(err)
				}
				opened <- st
			}()
			synctest.Wait()
			p.say(rawHello, rawFrame{typeAccept, 1, ""})
			st := <-opened
			start := time.Now()
			if writes {
				go st.Write(make([]byte, 60<<10))
			}
			_, err := st.Read(make([]byte, 1))
			if code := resetCodeOf(t, err); code != CodeLost {
				t.Errorf("code %v", code)
			}
			if took := time.Since(start); took > 45*time.Second {
				t.Errorf("took %v", took)
			}
			if err := wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestQuietLivePeersStayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePair(t, Config{})
		entry, core := p.open(t)
		time.Sleep(6 * time.Hour)
		write(t, entry, []byte("x"))
		if n, err := core.Read(make([]byte, 9)); n != 1 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
	})
}

func TestHelloComesFirstAndSaysTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, _ := facing(t, Server, Config{Window: 5000, MaxStreams: 7})
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.got) == 0 || p.got[0].typ != typeHello {
			t.Fatalf("got %v", p.got)
		}
		b := []byte(p.got[0].payload)
		if w, n := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]); w != 5000 || n != 7 {
			t.Errorf("window %d, streams %d", w, n)
		}
	})
}
