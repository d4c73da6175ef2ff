package store

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Rev is a moment of the store. Later moments are greater; nothing else about
// it has a meaning. As an int64 it is what nodes acknowledge.
type Rev int64

// Config says where the store is.
type Config struct {
	Endpoints []string
	TLS       *tls.Config // nil: without TLS, in tests
	// DataKey seals secret fields. All zero: sealing and opening fail. DataKeys
	// instead are several, of which the first seals.
	DataKey  [32]byte
	DataKeys [][32]byte
	Log      *slog.Logger // nil: none
	// Wait bounds one operation over all its tries; 0 is 5 s, which outlasts
	// the election of a leader.
	Wait time.Duration
	// PerTry bounds one try; 0 is 1 s, since a request to a member that has
	// just died hangs for 7 s.
	PerTry time.Duration
	// Term is how long an office stays with a server that is gone, in whole
	// seconds; 0 is 5 s. See Lead.
	Term time.Duration
}

// Store is typed access to the state. It is safe for concurrent use.
type Store struct {
	// What people and nodes decide: written by Change alone.
	Members     *Collection[mesh.MemberID, mesh.Member]
	Devices     *Collection[mesh.DeviceID, mesh.Device]
	Cells       *Collection[mesh.CellID, mesh.Cell]
	Cores       *Collection[mesh.CoreID, mesh.Core]
	Entries     *Collection[mesh.EntryID, mesh.Entry]
	Tokens      *Collection[mesh.TokenID, mesh.Token]
	Revocations *Collection[string, mesh.SignedRevocation] // by Record.ID
	Admins      *Collection[mesh.AdminID, mesh.Administrator]
	Servers     *Collection[mesh.ServerID, mesh.Server]
	Config      *Collection[string, mesh.Config]         // one object, ConfigKey
	CA          *Collection[string, Blob]                // by name
	Backup      *Collection[string, mesh.BackupSettings] // one object, BackupKey

	// Derived, or a record in itself: written by Update too.
	Certs       *Collection[string, mesh.CertRecord] // by serial
	Routes      *Collection[mesh.ServerName, mesh.Route]
	Targets     *Collection[string, mesh.Target]
	Spent       *Collection[string, mesh.Spent]
	Status      *Collection[string, mesh.NodeStatus]      // by role/id
	Hours       *Collection[string, mesh.MeterHour]       // by MeterID
	Totals      *Collection[string, mesh.TrafficTotals]   // by shard
	Progress    *Collection[string, mesh.TrafficProgress] // one object, TrafficKey
	Rollouts    *Collection[string, mesh.Rollout]         // by group
	BackupState *Collection[string, mesh.BackupState]     // one object, BackupStateKey
	Kubes       *Collection[mesh.KubeID, mesh.KubeCluster]
	KubeStates  *Collection[mesh.KubeID, mesh.KubeState]
	Reach       *Collection[mesh.EntryID, mesh.EntryReach]
	CellWatch   *Collection[mesh.CellID, mesh.CellWatch]
	CellUsage   *Collection[mesh.CellID, mesh.CellUsage]
	Relayed     *Collection[mesh.EntryID, mesh.EntryRelayed]
	MeterAudit  *Collection[string, mesh.MeterAudit] // one object, MeterAuditKey

	// Certificates that clients see, from public authorities. ACME is written by
	// Change alone.
	ACME      *Collection[string, mesh.ACMESettings]     // one object, ACMEKey
	ACMEState *Collection[string, mesh.ACMEState]        // one object, ACMEStateKey
	CellCerts *Collection[mesh.CoreID, mesh.CellCert]    // by core
	SubCert   *Collection[string, mesh.SubscriptionCert] // one object, SubCertKey

	// Written by transactions themselves; read only.
	Events        *Collection[string, mesh.Event]
	Audit         *Collection[string, mesh.AuditRecord]
	AuditChain    *Collection[string, mesh.AuditSegment]
	Alerts        *Collection[string, mesh.Alert]
	Hooks         *Collection[string, mesh.Webhook]
	HookStates    *Collection[string, mesh.HookState]
	Outbox        *Collection[string, mesh.Notice]
	Telegram      *Collection[mesh.TelegramUserID, mesh.TelegramUser] // its label is the decimal number
	TelegramCodes *Collection[string, mesh.TelegramCode]
	Chats         *Collection[string, mesh.TelegramChat]
	Threads       *Collection[string, mesh.TelegramThread]
	Shown         *Collection[mesh.TokenID, mesh.TelegramShown]
	BotState      *Collection[string, mesh.BotState] // one object, BotStateKey

	client *clientv3.Client
	log    *slog.Logger
	wait   time.Duration
	perTry time.Duration
	term   time.Duration
	turn   chan struct{} // held by a transaction that has lost once

	chained     atomic.Pointer[string] // the last audit record that a link is known to cover
	eventsUnder atomic.Int64           // the lease of the day, once it is known to be there

	sealing  sync.RWMutex // held to read from sealing a value until it is written
	keyLock  sync.Mutex   // guards dataKeys
	dataKeys [][32]byte   // the first seals
}

// Blob is a named piece of the CA's state: a sealed key, a certificate.
type Blob struct {
	Data    []byte    `json:"data"`
	Created time.Time `json:"created"`
}

const (
	defaultWait   = 5 * time.Second
	defaultPerTry = time.Second
	// keepAlive is the shortest that grpc-go obeys.
	keepAlive        = 10 * time.Second
	keepAliveTimeout = 3 * time.Second
)

// reconnect is how often a lost connection is tried again. gRPC's own limit of
// two minutes would keep the store away long after etcd has returned.
func reconnect() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.3, MaxDelay: 2 * time.Second},
		MinConnectTimeout: defaultPerTry,
	})
}

// Open returns the store at those endpoints. It dials in the background: an
// etcd that is not there shows with the first request, as ErrUnavailable.
func Open(ctx context.Context, c Config) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	cl, err := clientv3.New(clientv3.Config{
		Endpoints:            c.Endpoints,
		TLS:                  c.TLS,
		Logger:               zap.NewNop(), // errors are returned to whoever asked
		DialKeepAliveTime:    keepAlive,
		DialKeepAliveTimeout: keepAliveTimeout,
		PermitWithoutStream:  true,
		DialOptions:          []grpc.DialOption{grpc.WithUserAgent("meshctl"), reconnect()},
	})
	if err != nil {
		return nil, fmt.Errorf("store: open: %v: %w", err, mesh.ErrInvalid)
	}
	s := &Store{client: cl, dataKeys: c.DataKeys, log: c.Log, wait: c.Wait, perTry: c.PerTry, term: c.Term, turn: make(chan struct{}, 1)}
	if len(s.dataKeys) == 0 && c.DataKey != ([32]byte{}) {
		s.dataKeys = [][32]byte{c.DataKey}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.wait == 0 {
		s.wait = defaultWait
	}
	if s.perTry == 0 {
		s.perTry = defaultPerTry
	}
	if s.term == 0 {
		s.term = defaultTerm
	}
	s.collections()
	return s, nil
}

// Close ends the connection; watches end with it.
func (s *Store) Close() error {
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("store: close: %w", err)
	}
	return nil
}

// Client is etcd's own client, for the server side of pkg/store/gateway.
func (s *Store) Client() *clientv3.Client { return s.client }

// retry calls f, each try under a deadline of its own, until it succeeds, fails
// for good, or the store's patience or ctx ends.
func (s *Store) retry(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	for n := 0; ; n++ {
		err := s.try(ctx, f)
		if err == nil || !transient(err) {
			return err
		}
		if pause(ctx, n) != nil {
			return err
		}
	}
}

func (s *Store) try(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.perTry)
	defer cancel()
	return f(ctx)
}

// pause waits before try n+1: full jitter under a limit that doubles from 10 ms
// to 320 ms. It returns an error when ctx ends first.
func pause(ctx context.Context, n int) error {
	limit := 10 * time.Millisecond << min(n, 5)
	t := time.NewTimer(time.Millisecond + rand.N(limit))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// get reads one key or range.
func (s *Store) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	var resp *clientv3.GetResponse
	err := s.retry(ctx, func(ctx context.Context) (err error) {
		resp, err = s.client.Get(ctx, key, opts...)
		return err
	})
	return resp, err
}
