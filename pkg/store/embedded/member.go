// Package embedded runs one etcd member inside this process.
//
// The member listens for clients on loopback and for peers on its peer URL, both
// with TLS and certificates of etcd's own CA, since etcd takes a certificate's
// common name for a user. It refuses to start empty where it has run before, and
// a damaged log ends the start with a named error, never with a fresh cluster.
//
//	no folder, no marker ──▶ new member ──ready──▶ marker written
//	folder and marker ─────▶ resumes
//	marker, no folder ─────▶ refused: its data was lost
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Common names in certificates of etcd's CA. etcd's listener for clients admits
// ClientName alone, and its listener for peers PeerName alone.
const (
	ServerName = "meshctl-etcd-server"
	PeerName   = "meshctl-etcd-peer"
	ClientName = "meshctl-etcd-client"
)

// DefaultQuota is how large etcd's database may become, in bytes.
const DefaultQuota = 2 << 30

// Member is one etcd member. Set the fields, then call Run once.
type Member struct {
	Dir    string // etcd's data; made if absent, mode 0700
	TLSDir string // certificates in files, since etcd reads files; made if absent, mode 0700
	Name   string // unique in the cluster
	// PeerURL is where other members reach this one, https://host:port.
	PeerURL string
	// ClientURL is where this process reaches it, https://127.0.0.1:port. Port 0
	// takes any; ClientConfig says which.
	ClientURL string
	TLS       Material
	// Token keeps members of different clusters apart; the mesh id serves.
	Token string
	// Cluster is name=url,… of all members; "" is this one alone.
	Cluster string
	// Existing joins a cluster that runs already, as Cluster says.
	Existing bool
	// ForceNew makes a cluster of this member alone out of the one that its data
	// is of, for good: the others are out, and what had not been committed yet
	// for all that this member knows is dropped.
	ForceNew bool
	// Quota is the size in bytes at which etcd refuses changes; 0: DefaultQuota.
	Quota int64
	// Heartbeat and Election are raft's timers; 0: 100 ms and 1 s, which suit
	// servers at different sites.
	Heartbeat, Election time.Duration
	// Retention is how long old revisions are kept; 0: one hour.
	Retention time.Duration
	// UnsafeNoFsync is for tests.
	UnsafeNoFsync bool
	Log           *slog.Logger // nil: none

	resumes bool // it has run before; set by Run

	mu   sync.Mutex  // guards what follows
	etcd *embed.Etcd // nil when not running
	gone bool        // etcd says that this member was removed
}

// Run starts the member, calls ready when it takes requests, and blocks until
// ctx ends or etcd stops by itself, which is an error. It hands leadership over
// when it ends.
func (m *Member) Run(ctx context.Context, ready func()) error {
	if m.Log == nil {
		m.Log = slog.New(slog.DiscardHandler)
	}
	if err := m.prepare(); errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("embedded: start: %w", m.noRoom(err))
	} else if err != nil {
		return fmt.Errorf("embedded: start: %w", err)
	}
	e, err := m.start()
	if err != nil {
		return fmt.Errorf("embedded: start: %w", err)
	}
	defer m.stop(e)
	if on, err := m.await(ctx, e); !on || err != nil {
		return err
	}
	if err := m.mark(e); err != nil {
		return fmt.Errorf("embedded: start: %w", err)
	}
	m.set(e)
	ready()
	return m.serve(ctx, e)
}

// patience is how long a member may take to be ready without a word.
const patience = 15 * time.Second

// await returns true when the member is ready. That takes other members if the
// cluster has some.
func (m *Member) await(ctx context.Context, e *embed.Etcd) (bool, error) {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case err := <-e.Err():
			return false, m.ended(e, err)
		case <-e.Server.StopNotify():
			return false, m.ended(e, nil)
		case <-e.Server.ReadyNotify():
			return true, nil
		case <-tick.C:
			m.Log.Warn("etcd not ready yet", "count", len(e.Server.Cluster().Members()))
		}
	}
}

// alarmEvery is how often the member's alarms are looked at, in memory.
const alarmEvery = 10 * time.Second

func (m *Member) serve(ctx context.Context, e *embed.Etcd) error {
	tick := time.NewTicker(alarmEvery)
	defer tick.Stop()
	raised := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-e.Err():
			return m.ended(e, err)
		case <-e.Server.StopNotify():
			return m.ended(e, nil)
		case <-tick.C:
			now := len(e.Server.Alarms()) > 0
			if now && !raised {
				m.Log.Error("etcd alarm raised", "alarms", alarmNames(e.Server.Alarms()))
			}
			raised = now
		}
	}
}

// ErrRemoved ends a member that was taken out of its cluster, for good.
var ErrRemoved = errors.New("this etcd member was removed from its cluster")

func (m *Member) ended(e *embed.Etcd, err error) error {
	c, ok := e.Server.Cluster().(interface{ IsIDRemoved(types.ID) bool })
	if m.removed() || ok && c.IsIDRemoved(e.Server.MemberID()) {
		return fmt.Errorf("embedded: %w", ErrRemoved)
	}
	if err == nil {
		return mesh.WithHint(fmt.Errorf("embedded: etcd stopped by itself"), "look at the log above")
	}
	return fmt.Errorf("embedded: etcd stopped by itself: %w", err)
}

func (m *Member) set(e *embed.Etcd) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.etcd = e
}

// running returns the member, or ErrUnavailable before ready and after the end.
func (m *Member) running() (*embed.Etcd, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.etcd == nil {
		return nil, fmt.Errorf("embedded: etcd is not running: %w", mesh.ErrUnavailable)
	}
	return m.etcd, nil
}

func (m *Member) stop(e *embed.Etcd) {
	m.set(nil)
	closeEtcd(e)
}
