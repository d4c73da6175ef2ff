package subs

import (
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/subscription"
)

// maxCached is how many documents are kept; one has some kilobytes.
const maxCached = 2048

// cache keeps finished documents for as long as what they are made of is the
// same. Memory is bounded: when it is full, any other goes.
type cache struct {
	mu   sync.Mutex // guards docs
	docs map[docKey]*document
}

// docKey tells the documents of a device apart.
type docKey struct {
	device mesh.DeviceID
	format subscription.Format
	trusts bool // Profile.TrustsCA
}

// document is a finished answer.
type document struct {
	made   subscription.Profile // of this, without its age
	body   subscription.Body
	header http.Header // more than every document has
	etag   string
}

// get returns the document that was made of the same profile.
func (c *cache) get(k docKey, p subscription.Profile) (*document, bool) {
	c.mu.Lock()
	d := c.docs[k]
	c.mu.Unlock()
	if d == nil || !reflect.DeepEqual(d.made, ageless(p)) {
		return nil, false
	}
	return d, true
}

func (c *cache) put(k docKey, d *document) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.docs == nil {
		c.docs = map[docKey]*document{}
	}
	if _, ok := c.docs[k]; !ok && len(c.docs) >= maxCached {
		for other := range c.docs {
			delete(c.docs, other)
			break
		}
	}
	c.docs[k] = d
}

// ageless is p without what changes by itself as time goes by. Documents show
// their age only while it is worth a word.
func ageless(p subscription.Profile) subscription.Profile {
	if !p.Stale {
		p.AsOf = time.Time{}
	}
	return p
}
