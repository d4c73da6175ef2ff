package bot_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"math/big"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot"
	"github.com/meshctl/meshctl/pkg/bot/bottest"
	"github.com/meshctl/meshctl/pkg/bot/telegram"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/adminsvc"
	"github.com/meshctl/meshctl/pkg/mgmt/bots"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// realServer is the Admin service on a real store, as the child sees it: a socket
// at which nobody but the bot calls.
type realServer struct {
	t     *testing.T
	store *store.Store
	admin *adminsvc.Service
	bots  *bots.Service
	conn  *grpc.ClientConn
}

func newRealServer(t *testing.T) *realServer {
	t.Helper()
	w := &realServer{t: t, store: storetest.New(t)}
	w.admin = &adminsvc.Service{
		Store: w.store, CA: signsAll{}, Mesh: mesh.NewID(), Server: mesh.NewServerID(), Version: "v1",
		RootHash: sha256.Sum256([]byte("root")), Log: slog.New(slog.DiscardHandler),
		ServerStatus: func(context.Context) (admin.ServerStatus, error) {
			return admin.ServerStatus{Name: "m1", Etcd: admin.EtcdStatus{Members: 1, Quota: 100, BytesUsed: 10}}, nil
		},
		WaitServed: func(ctx context.Context, _ mesh.DeviceID) error {
			_, err := w.store.ReconcileRoutes(ctx, time.Now())
			return err
		},
	}
	w.bots = &bots.Service{Store: w.store, Admin: w.admin, Mesh: w.admin.Mesh, Server: w.admin.Server, Log: w.admin.Log}
	cfg := mesh.DefaultConfig()
	cfg.MgmtAddresses = []string{"mgmt.example.net:8443"}
	cfg.EntryAddresses = []string{"192.0.2.1:443"}
	cfg.Subscription.Name = "sub.example.net"
	w.write(func(tx *store.Tx) error { return store.Create(tx, w.store.Config, store.ConfigKey, cfg) })
	w.serve()
	return w
}

func (w *realServer) serve() {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "aux")
	ln, err := new(net.ListenConfig).Listen(w.t.Context(), "unix", path)
	if err != nil {
		w.t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.UnaryInterceptor(w.guard))
	admin.Serve(srv, append(w.admin.Bindings(), w.bots.Bindings()...))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // ends with Stop
	}()
	w.t.Cleanup(func() { srv.Stop(); <-done })
	w.conn, err = grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = w.conn.Close() }) // nothing is under way
}

// guard admits calls as a management server does at the door of its child.
func (w *realServer) guard(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	rule, ok := admin.BotTable()[info.FullMethod]
	md, _ := metadata.FromIncomingContext(ctx)
	if !ok || len(md.Get(admin.BotUserHeader)) != 1 {
		return nil, admin.ToStatus(mesh.ErrDenied)
	}
	number, err := mesh.ParseTelegramID(md.Get(admin.BotUserHeader)[0])
	if err != nil {
		return nil, admin.ToStatus(err)
	}
	p, err := w.bots.Person(ctx, number)
	if err != nil {
		return nil, admin.ToStatus(err)
	}
	who, err := p.As(info.FullMethod, rule)
	if err != nil {
		return nil, admin.ToStatus(err)
	}
	if rule.Changes {
		if len(md.Get(admin.BotUpdateHeader)) != 1 {
			return nil, admin.ToStatus(mesh.ErrDenied)
		}
		ctx = store.Once(ctx, "bot/"+info.FullMethod+"/"+number.String()+"/"+md.Get(admin.BotUpdateHeader)[0])
	}
	return next(admin.WithCaller(ctx, admin.Caller{Actor: who, Role: p.Role(), Request: "req", Via: p.Via(), Bot: &p}), req)
}

// signsAll is an authority whose signatures nobody checks here.
type signsAll struct{}

func (signsAll) SignRevocation(r mesh.Revocation) (mesh.SignedRevocation, error) {
	payload, err := json.Marshal(r)
	return mesh.SignedRevocation{Record: r, Payload: payload, Signature: []byte("signed"), Signer: []byte("signer")}, err
}

func (signsAll) CRL(*big.Int, []ca.RevokedCert, time.Time, time.Time) ([]byte, error) {
	return []byte("list"), nil
}

// write makes a change that nobody asked for.
func (w *realServer) write(fn func(*store.Tx) error) {
	w.t.Helper()
	if _, err := w.store.Change(w.t.Context(), store.By{Actor: "system:test"}, "test", fn); err != nil {
		w.t.Fatal(err)
	}
}

// settings changes the configuration.
func (w *realServer) settings(change func(*mesh.Config)) {
	w.write(func(tx *store.Tx) error {
		return store.Update(tx, w.store.Config, store.ConfigKey, func(c *mesh.Config) error {
			change(c)
			return nil
		})
	})
}

// cell makes a cell with cores that are ready.
func (w *realServer) cell(name string, owner mesh.MemberID, cores ...string) mesh.Cell {
	c := mesh.Cell{ID: mesh.NewCellID(), Name: name, Suffix: mesh.ServerName(name + ".example.net"), State: mesh.CellActive, Created: time.Now()}
	w.write(func(tx *store.Tx) error { return store.Create(tx, w.store.Cells, c.ID, c) })
	for _, name := range cores {
		w.core(mesh.Core{Name: name, Member: owner, Cell: c.ID})
	}
	return c
}

// core makes a core that is ready and has acknowledged all there will be.
func (w *realServer) core(c mesh.Core) mesh.Core {
	c.ID, c.State, c.EverReady, c.Version = mesh.NewCoreID(), mesh.CoreReady, true, "v1.0.0"
	node := "core/" + string(c.ID)
	w.write(func(tx *store.Tx) error {
		st := mesh.NodeStatus{Node: node, Connected: true, DevicesRev: 1 << 40, Streams: 3}
		return errors.Join(store.Create(tx, w.store.Cores, c.ID, c), store.Create(tx, w.store.Status, node, st),
			store.Create(tx, w.store.Targets, string(c.ID), mesh.TargetOf(w.admin.Mesh, c, "meshctl-relay/1")))
	})
	return c
}

func (w *realServer) member(name string, limit int) mesh.Member {
	m := mesh.Member{ID: mesh.NewMemberID(), Name: name, State: mesh.MemberActive, DeviceLimit: &limit, Created: time.Now()}
	w.write(func(tx *store.Tx) error { return store.Create(tx, w.store.Members, m.ID, m) })
	return m
}

func (w *realServer) device(m mesh.Member, name string, c mesh.Cell, limits mesh.Limits) mesh.Device {
	d, err := w.admin.NewDevice(name, limits)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(func(tx *store.Tx) error { return w.admin.PlaceDevice(tx, d, m, string(c.ID), "") })
	if _, err := w.store.ReconcileRoutes(w.t.Context(), time.Now()); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// linked makes somebody on Telegram who is linked already.
func (w *realServer) linked(u *bottest.User, as mesh.TelegramUser) {
	as.ID, as.Telegram, as.Name, as.Language, as.Created = mesh.NewTelegramUserID(), mesh.TelegramID(u.ID).String(), u.Name, u.Lang, time.Now()
	w.write(func(tx *store.Tx) error { return store.Create(tx, w.store.Telegram, as.ID, as) })
}

// code makes a code for somebody.
func (w *realServer) code(code string, as mesh.TelegramCode) {
	sum := sha256.Sum256([]byte(code))
	as.ID, as.Created, as.Expires = hex.EncodeToString(sum[:]), time.Now(), time.Now().Add(time.Hour)
	w.write(func(tx *store.Tx) error { return store.Create(tx, w.store.TelegramCodes, as.ID, as) })
}

// operator makes an administrator whom somebody on Telegram is.
func (w *realServer) operator(u *bottest.User, name string) {
	a := mesh.Administrator{ID: mesh.NewAdminID(), Name: name, Role: mesh.AdminOwner, Created: time.Now()}
	w.write(func(tx *store.Tx) error { return store.Create(tx, w.store.Admins, a.ID, a) })
	w.linked(u, mesh.TelegramUser{Admin: a.ID})
}

// talk is a bot at a real server and at an API.
type talk struct {
	*realServer
	api *bottest.Server
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	w := &talk{newRealServer(t), bottest.New(t)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	wg.Go(func() {
		if err := w.bots.Lead(ctx); err != nil {
			t.Errorf("lead: %v", err)
		}
	})
	b := &bot.Bot{
		Telegram: telegram.Settings{Token: w.api.Token(), APIs: []string{w.api.URL}, PerChat: 1000},
		Mesh:     w.admin.Mesh, Server: w.conn, Outbox: handed{w.bots}, Log: slog.New(slog.DiscardHandler),
	}
	wg.Go(func() {
		if err := b.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return w
}

// handed is the outbox of the server without the stream that is in between.
type handed struct{ bots *bots.Service }

func (h handed) Notices(ctx context.Context) iter.Seq2[mesh.Notice, error] {
	return func(yield func(mesh.Notice, error) bool) {
		err := h.bots.Hand(ctx, false, func(n mesh.Notice) error {
			if !yield(n, nil) {
				return context.Canceled
			}
			return nil
		})
		yield(mesh.Notice{}, err)
	}
}

func (h handed) Sent(ctx context.Context, id string, message int64, dropped bool) error {
	return h.bots.Sent(ctx, id, message, dropped)
}
