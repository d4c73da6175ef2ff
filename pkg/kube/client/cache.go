package client

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// cache is what the watches saw of what is ours.
type cache struct {
	changed chan struct{} // holds one: something is different

	mu      sync.Mutex
	shelves map[string]*shelf // by kind; guarded by mu
}

// shelf has the objects of one kind.
type shelf struct {
	tried   bool // it was listed, or that failed
	synced  bool
	err     error // why it may be behind
	objects map[string]*unstructured.Unstructured
}

func newCache() *cache {
	c := &cache{changed: make(chan struct{}, 1), shelves: make(map[string]*shelf)}
	for _, k := range kinds {
		c.shelves[k.name] = &shelf{}
	}
	return c
}

func (c *cache) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *cache) edit(kind string, f func(*shelf)) {
	c.mu.Lock()
	f(c.shelves[kind])
	c.mu.Unlock()
	c.wake()
}

func (c *cache) replace(kind string, items []unstructured.Unstructured) {
	objects := make(map[string]*unstructured.Unstructured, len(items))
	for i := range items {
		objects[items[i].GetName()] = &items[i]
	}
	c.edit(kind, func(s *shelf) { s.tried, s.synced, s.err, s.objects = true, true, nil, objects })
}

// put keeps an object. It returns errTooMany, and keeps none, where there are as many
// as a list may have.
func (c *cache) put(kind string, o *unstructured.Unstructured) (err error) {
	c.edit(kind, func(s *shelf) {
		if s.objects[o.GetName()] == nil && len(s.objects) >= maxObjects {
			err = errTooMany
			return
		}
		s.objects[o.GetName()] = o
	})
	return err
}

func (c *cache) drop(kind string, o *unstructured.Unstructured) {
	c.edit(kind, func(s *shelf) { delete(s.objects, o.GetName()) })
}

func (c *cache) fail(kind string, err error) {
	c.edit(kind, func(s *shelf) { s.tried, s.err = true, err })
}

// ready says whether every kind was tried.
func (c *cache) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shelves {
		if !s.tried {
			return false
		}
	}
	return true
}

// get finds an object. known is whether its kind can be looked at.
func (c *cache) get(kind, name string) (o *unstructured.Unstructured, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.shelves[kind]
	if s == nil || !s.synced {
		return nil, false
	}
	return s.objects[name], true
}

// follows says whether a kind is watched, and nothing keeps it from that.
func (c *cache) follows(kind string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.shelves[kind]
	return s != nil && s.synced && s.err == nil
}

// list has the objects of a kind by name. known is whether it can be looked at.
func (c *cache) list(kind string) (list []*unstructured.Unstructured, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.shelves[kind]
	if s == nil || !s.synced {
		return nil, false
	}
	for _, o := range s.objects {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list, true
}

// trouble is why what is here may be behind, in the order of kinds.
func (c *cache) trouble() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, k := range kinds {
		if s := c.shelves[k.name]; s != nil && s.err != nil {
			errs = append(errs, s.err)
		}
	}
	return errs
}
