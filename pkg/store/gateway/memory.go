package gateway

import (
	"container/list"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// answer is what a management server said about one name.
type answer struct {
	route  mesh.Route
	moment           // of the store when it said so
	at     time.Time // when it said so
}

// memory keeps the last answer for each of the most recently asked names.
type memory struct {
	most int

	mu    sync.Mutex // guards the rest
	order list.List  // of *remembered, most recent first
	names map[mesh.ServerName]*list.Element
}

type remembered struct {
	name mesh.ServerName
	answer
}

func (m *memory) put(name mesh.ServerName, a answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.names[name]; e != nil {
		e.Value.(*remembered).answer = a
		m.order.MoveToFront(e)
		return
	}
	if m.names == nil {
		m.names = map[mesh.ServerName]*list.Element{}
	}
	m.names[name] = m.order.PushFront(&remembered{name, a})
	if m.order.Len() > m.most {
		m.dropLocked(m.order.Back())
	}
}

func (m *memory) get(name mesh.ServerName) (answer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.names[name]
	if e == nil {
		return answer{}, false
	}
	return e.Value.(*remembered).answer, true
}

func (m *memory) forget(name mesh.ServerName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.names[name]; e != nil {
		m.dropLocked(e)
	}
}

func (m *memory) dropLocked(e *list.Element) {
	m.order.Remove(e)
	delete(m.names, e.Value.(*remembered).name)
}
