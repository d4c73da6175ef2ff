package nodes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// hub holds the streams that are open on this server, one per node, and waits
// for every goroutine that serves them.
type hub struct {
	wg sync.WaitGroup

	mu       sync.Mutex // guards what follows
	open     bool
	alive    marker
	last     int
	streams  map[int]context.CancelCauseFunc // ends each stream, admitted or not
	sessions map[string]*session             // by role/id
	// unsaved are nodes whose status is to be written: nil for one whose
	// session knows it, otherwise what was left when the session ended.
	unsaved map[string]*mesh.NodeStatus
}

// marker tells other servers which nodes are here; see store.Alive.
type marker interface {
	Set(node string)
	Clear(node string)
}

var errStopping = fmt.Errorf("nodes: connect: this server is stopping: %w", mesh.ErrUnavailable)

// enter counts a stream in, and leave out again; end is how it is ended from
// here.
func (h *hub) enter(end context.CancelCauseFunc) (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return nil, errStopping
	}
	h.wg.Add(1)
	h.last++
	key := h.last
	h.streams[key] = end
	return func() {
		h.mu.Lock()
		delete(h.streams, key)
		h.mu.Unlock()
		h.wg.Done()
	}, nil
}

// start lets streams in. What nodes' statuses left by an earlier run of this
// server say is to be written first.
func (h *hub) start(alive marker, left []mesh.NodeStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open, h.alive = true, alive
	h.streams = map[int]context.CancelCauseFunc{}
	h.sessions = map[string]*session{}
	h.unsaved = map[string]*mesh.NodeStatus{}
	for _, st := range left {
		h.unsaved[st.Node] = &st
	}
}

// stop lets no stream in any more and has the nodes told.
func (h *hub) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = false
	for _, se := range h.sessions {
		se.leave("this server is stopping")
	}
}

// cut ends every stream.
func (h *hub) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, end := range h.streams {
		end(errStopping)
	}
}

// admit makes se the stream of its node, or says why another one stays. The
// stream that was replaced, if any, is returned for its caller to end.
func (h *hub) admit(se *session) (replaced *session, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return nil, errStopping
	}
	first := h.sessions[se.node]
	if first != nil {
		if err := follows(first.hello, se.hello, first.observed.String()); err != nil {
			return nil, err
		}
	}
	h.sessions[se.node] = se
	h.unsaved[se.node] = nil
	h.alive.Set(se.node)
	return first, nil
}

// follows says whether the node that said second is the one that said first,
// later in its life: the same state folder, not an older copy of it.
func follows(first, second *controlpb.Hello, where string) error {
	switch {
	case first.GetInstance() != second.GetInstance():
		return mesh.WithHint(
			fmt.Errorf("nodes: connect: another node with this identity is connected from %s: %w", where, mesh.ErrConflict),
			"an identity belongs to one machine: stop one of the two and let it join with a token of its own; if its key was copied, revoke it")
	case second.GetBoot() < first.GetBoot():
		return mesh.WithHint(
			fmt.Errorf("nodes: connect: a later start of this node (%d, this one is %d) is connected from %s: %w", first.GetBoot(), second.GetBoot(), where, mesh.ErrConflict),
			"this folder is an older copy: stop one of the two machines that use it")
	}
	return nil
}

// dismiss forgets se and keeps what is to be written of it, unless another
// stream has taken its place.
func (h *hub) dismiss(se *session) {
	st := se.status()
	st.Connected = false
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[se.node] == se {
		delete(h.sessions, se.node)
		h.unsaved[se.node] = &st
		h.alive.Clear(se.node)
	}
}

func (h *hub) get(node string) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[node]
}

func (h *hub) all() []*session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.sessions))
}

// changed notes that the status of a connected node is to be written.
func (h *hub) changed(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[node] != nil {
		h.unsaved[node] = nil
	}
}

// takeUnsaved returns what is to be written and forgets it. What could not be
// written comes back through restore.
func (h *hub) takeUnsaved() []mesh.NodeStatus {
	h.mu.Lock()
	unsaved := h.unsaved
	h.unsaved = map[string]*mesh.NodeStatus{}
	live := maps.Clone(h.sessions)
	h.mu.Unlock()
	var out []mesh.NodeStatus
	for node, st := range unsaved {
		switch se := live[node]; {
		case se != nil:
			out = append(out, se.status())
		case st != nil:
			out = append(out, *st)
		}
	}
	return out
}

func (h *hub) restore(list []mesh.NodeStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, st := range list {
		if _, newer := h.unsaved[st.Node]; !newer && (h.sessions[st.Node] != nil || !st.Connected) {
			h.unsaved[st.Node] = &st
		}
	}
}
