package entry

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// cores is what this entry knows of cores: where each is, by the last lookup or
// report, and how it answered. Management servers, to which the name of the
// subscription service leads, are among them.
type cores struct {
	mu    sync.Mutex // guards known
	known map[string]*core
}

type core struct {
	target mesh.Target
	// failures in a row; until then others are tried before it.
	failures int
	until    time.Time
	// tried is when it was last asked, wanted when a client last had it asked.
	tried, wanted time.Time
	// since the last report
	answered, failed int64
	lastErr          string
	fault            mesh.DialFault

	meter relay.Meter // of all that was relayed through it
	told  int64       // of that, in reports
}

const (
	maxCores = 8192
	// After a failure a core comes last for so long, doubled each time.
	shortestRest = 2 * time.Second
	longestRest  = 30 * time.Second
	maxErrText   = 200
)

// put records targets as a lookup gave them.
func (c *cores) put(targets []mesh.Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range targets {
		c.ofLocked(t.ID).target = t
	}
}

func (c *cores) ofLocked(id string) *core {
	if k := c.known[id]; k != nil {
		return k
	}
	if c.known == nil {
		c.known = map[string]*core{}
	}
	if len(c.known) >= maxCores {
		// One of thousands: it comes back with the next lookup.
		for other := range c.known {
			delete(c.known, other)
			break
		}
	}
	k := &core{}
	c.known[id] = k
	return k
}

func (c *cores) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[id]; k != nil {
		k.target = mesh.Target{}
	}
}

func (c *cores) target(id string) (mesh.Target, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[id]; k != nil && k.target.ID == id {
		return k.target, true
	}
	return mesh.Target{}, false
}

// heard records that a core answered and says whether it had not before.
func (c *cores) heard(id string) (recovered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.ofLocked(id)
	recovered = k.failures > 0
	k.tried = time.Now()
	k.failures, k.until = 0, time.Time{}
	k.answered++
	return recovered
}

// silent records that a core could not be reached and says whether that is news.
func (c *cores) silent(id string, err error) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.ofLocked(id)
	k.tried = time.Now()
	k.failed++
	k.lastErr, k.fault = err.Error(), faultOf(err)
	if len(k.lastErr) > maxErrText {
		k.lastErr = k.lastErr[:maxErrText]
	}
	if time.Now().Before(k.until) {
		return false // one of several that were under way together
	}
	k.until = time.Now().Add(min(shortestRest<<min(k.failures, 8), longestRest))
	k.failures++
	return k.failures == 1
}

// node is role/id of what the log is to name.
func (c *cores) node(id string) string {
	if t, _ := c.target(id); t.Kind == mesh.HopMgmt {
		return string(mesh.RoleMgmt) + "/" + id
	}
	return string(mesh.RoleCore) + "/" + id
}

// want notes that a client has a core asked.
func (c *cores) want(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ofLocked(id).wanted = time.Now()
}

// meter counts what is relayed through a core.
func (c *cores) meter(id string) *relay.Meter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &c.ofLocked(id).meter
}

// order returns the targets worth trying, best first: those that neither
// management nor this entry holds for silent, then by state, then as the route
// has them.
// Whom the state, the identity or the protocol rules out is not among them.
func (c *cores) order(m mesh.ID, targets []mesh.Target) []mesh.Target {
	type ranked struct {
		mesh.Target
		silent bool
	}
	now := time.Now()
	var list []ranked
	c.mu.Lock()
	for _, t := range targets {
		if usable(m, t) == nil {
			k := c.known[t.ID]
			list = append(list, ranked{t, t.State == mesh.CoreLost || k != nil && now.Before(k.until)})
		}
	}
	c.mu.Unlock()
	slices.SortStableFunc(list, func(a, b ranked) int {
		if a.silent != b.silent {
			if a.silent {
				return 1
			}
			return -1
		}
		return cmp.Compare(rank(a.State), rank(b.State))
	})
	out := make([]mesh.Target, len(list))
	for i, r := range list {
		out[i] = r.Target
	}
	return out
}

// rank orders states; a lost core may be back before anybody knows.
func rank(s mesh.CoreState) int {
	switch s {
	case mesh.CoreReady:
		return 0
	case mesh.CoreDraining:
		return 1
	case mesh.CoreJoined:
		return 2
	}
	return 3
}

// usable says why t is not to be dialled, or nil.
func usable(m mesh.ID, t mesh.Target) error {
	switch {
	case t.State == mesh.CoreRevoked:
		return fmt.Errorf("entry: core %s is revoked: %w", t.ID, mesh.ErrDenied)
	case len(t.Addresses) == 0:
		return fmt.Errorf("entry: core %s has no address: %w", t.ID, mesh.ErrUnavailable)
	case !slices.Contains(t.Protocols, relay.ALPN):
		return fmt.Errorf("entry: core %s does not speak %s: %w", t.ID, relay.ALPN, mesh.ErrUnavailable)
	}
	_, err := expected(m, t)
	return err
}

// expected is who must answer at a target's addresses.
func expected(m mesh.ID, t mesh.Target) (mesh.Identity, error) {
	id, err := mesh.ParseIdentity(t.Identity)
	if err != nil {
		return mesh.Identity{}, fmt.Errorf("entry: target %s: %w", t.ID, err)
	}
	role := mesh.RoleCore
	if t.Kind == mesh.HopMgmt {
		role = mesh.RoleMgmt
	}
	if want := (mesh.Identity{Mesh: m, Role: role, ID: t.ID}); id != want {
		return mesh.Identity{}, fmt.Errorf("entry: target %s names another identity: %w", t.ID, mesh.ErrDenied)
	}
	return id, nil
}
