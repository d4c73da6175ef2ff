package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// objects of one era are worked on at once. With a new era the clients go on to
// new ones, since the time of the check grows with what is unknown of one object.
const (
	objects = 4
	names   = 2
	era     = 4 * time.Second
)

// recorder is the history that clients write together.
type recorder struct {
	start time.Time
	words atomic.Int64

	mu    sync.Mutex // guards what follows
	ops   []porcupine.Operation
	ids   map[string]mesh.MemberID // of objects by name
	fates map[string]fate          // of changes by request
}

type fate int

const (
	acknowledged fate = iota
	refused
	unknown
)

func (r *recorder) now() int64 { return int64(time.Since(r.start)) }

func (r *recorder) word() string { return fmt.Sprint(" ", r.words.Add(1)) }

func (r *recorder) id(object string) mesh.MemberID {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[object] == "" {
		r.ids[object] = mesh.NewMemberID()
	}
	return r.ids[object]
}

func (r *recorder) add(client int, call int64, in input, out output) {
	end := r.now()
	if out.unknown {
		end = forever
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
}

func (r *recorder) decide(request string, f fate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fates[request] = f
}

// client does one thing after another through one member.
type client struct {
	n    int
	s    *store.Store
	r    *recorder
	held map[string]string // names to objects that it made for them
}

// run works until ctx ends, at a bounded rate.
func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		age := time.Since(c.r.start) / era
		if rand.N(4) == 0 {
			c.onName(fmt.Sprintf("name-%d-%d", age, rand.N(names)))
		} else {
			c.onObject(fmt.Sprintf("object-%d-%d", age, rand.N(objects)))
		}
		pause(ctx, 20*time.Millisecond+rand.N(40*time.Millisecond))
	}
}

func (c *client) onObject(object string) {
	id, word := c.r.id(object), c.r.word()
	switch n := rand.N(20); {
	case n < 8:
		c.read(object, id)
	case n < 16:
		before := ""
		c.change(input{object, extend, word}, &before, func(tx *store.Tx) error {
			return store.Update(tx, c.s.Members, id, func(m *mesh.Member) error {
				before = m.Note
				m.Note += word
				return nil
			})
		})
	case n < 19 || strings.HasSuffix(object, "-0"): // one is never deleted
		m := mesh.Member{ID: id, Name: object, Note: word, State: mesh.MemberActive}
		c.change(input{object, create, word}, nil, func(tx *store.Tx) error { return store.Create(tx, c.s.Members, id, m) })
	default:
		c.change(input{object, remove, ""}, nil, func(tx *store.Tx) error { return store.Delete(tx, c.s.Members, id) })
	}
}

func (c *client) onName(name string) {
	switch held := c.held[name]; {
	case rand.N(2) == 0:
		c.resolve(name)
	case held != "":
		delete(c.held, name)
		c.change(input{name, release, held}, nil, func(tx *store.Tx) error {
			return store.Delete(tx, c.s.Members, mesh.MemberID(held))
		})
	default:
		id := mesh.NewMemberID()
		c.held[name] = string(id)
		m := mesh.Member{ID: id, Name: name, State: mesh.MemberActive}
		c.change(input{name, claim, string(id)}, nil, func(tx *store.Tx) error { return store.Create(tx, c.s.Members, id, m) })
	}
}

// change makes a change and records what became of it. before, if not nil, is
// what the attempt that was made has seen.
func (c *client) change(in input, before *string, f func(*store.Tx) error) {
	request := fmt.Sprintf("%s-%d", in.verb, c.r.words.Add(1))
	call := c.r.now()
	_, err := c.s.Change(context.Background(), store.By{Actor: "local:0", Request: request}, string(in.verb), f)
	switch {
	case err == nil:
		out := output{}
		if before != nil {
			out.value = *before
		}
		c.r.decide(request, acknowledged)
		c.r.add(c.n, call, in, out)
	case errors.Is(err, mesh.ErrExists), errors.Is(err, mesh.ErrNotFound):
		c.r.decide(request, refused)
		c.r.add(c.n, call, in, output{refused: true})
	default:
		c.r.decide(request, unknown)
		c.r.add(c.n, call, in, output{unknown: true})
	}
}

// read records an answer. Nothing is learned from none.
func (c *client) read(object string, id mesh.MemberID) {
	call := c.r.now()
	it, err := c.s.Members.Get(context.Background(), id)
	if err == nil || errors.Is(err, mesh.ErrNotFound) {
		c.r.add(c.n, call, input{object, read, ""}, output{value: it.Value.Note})
	}
}

func (c *client) resolve(name string) {
	call := c.r.now()
	m, err := c.s.Members.Lookup(context.Background(), name)
	if err == nil || errors.Is(err, mesh.ErrNotFound) {
		c.r.add(c.n, call, input{name, resolve, ""}, output{value: string(m.ID)})
	}
}
