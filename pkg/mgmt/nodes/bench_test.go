package nodes

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is how long a test waits for what must happen; loaded machines are slow.
const patient = time.Minute

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// quick are times that let a test see everything happen.
func quick() Settings {
	return Settings{
		HelloWait: 5 * time.Second, Ping: 15 * time.Second, Seen: time.Second, Lost: time.Minute,
		Probe: time.Minute, Retry: 100 * time.Millisecond, ProbeTime: 5 * time.Second, Pass: 2 * time.Second,
	}
}

// network is a mesh with one management server: a real store, and the service
// on a real port with real certificates.
type network struct {
	t      *testing.T
	ids    *identitytest.Mesh
	store  *store.Store
	server *identity.Node
	svc    *Service
	addr   string
	stop   func()
	// superseded is the service's from the next start on.
	superseded func(mesh.SignedEpoch)

	member mesh.Member
	cell   mesh.Cell
}

func newNetwork(t *testing.T, times Settings, allow ...netip.Prefix) *network {
	t.Helper()
	return newNetworkOn(t, storetest.New(t), times, allow...)
}

func newNetworkOn(t *testing.T, st *store.Store, times Settings, allow ...netip.Prefix) *network {
	t.Helper()
	n := &network{t: t, ids: identitytest.New(t), store: st}
	n.server = n.ids.Node(t, mesh.RoleMgmt)
	n.member = mesh.Member{ID: mesh.NewMemberID(), Name: "alice", State: mesh.MemberActive}
	n.cell = mesh.Cell{ID: mesh.NewCellID(), Name: "a", Suffix: "a.example.net", State: mesh.CellActive, Certificate: mesh.CertificatePrivate}
	config := mesh.DefaultConfig()
	config.AllowedAddresses = allow
	n.change(func(tx *store.Tx) error {
		if err := store.Create(tx, n.store.Config, store.ConfigKey, config); err != nil {
			return err
		}
		if err := store.Create(tx, n.store.Members, n.member.ID, n.member); err != nil {
			return err
		}
		return store.Create(tx, n.store.Cells, n.cell.ID, n.cell)
	})
	n.start(times)
	return n
}

// start runs the service and its port; it may be called again after stop.
func (n *network) start(times Settings) {
	n.t.Helper()
	n.svc = &Service{
		Store: n.store, Mesh: n.ids.ID, Server: mesh.ServerID(n.server.Identity().ID), Node: n.server,
		Revocations: n.ids.Revocations(n.t), Log: slog.New(slog.NewTextHandler(n.t.Output(), nil)), Settings: times, Superseded: n.superseded,
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- n.svc.Run(ctx, func() { close(ready) }) }()
	stopPort := n.listen()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("Run = %v", err)
		}
		stopPort()
	})
	n.t.Cleanup(n.stop)
	select {
	case <-ready:
	case <-time.After(patient):
		n.t.Fatal("the service is not ready")
	}
}

func (n *network) listen() (stop func()) {
	policy := identity.Policy{Revocations: n.svc.Revocations, Accept: identity.MgmtPort().Accept}
	srv := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(n.server.ServerTLS(policy, identity.ProtoGRPC))),
		grpc.StreamInterceptor(identify),
	)
	controlpb.RegisterNodeControlServer(srv, n.svc)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.addr = ln.Addr().String()
	done := make(chan struct{})
	go func() { srv.Serve(ln); close(done) }()
	return func() { srv.Stop(); <-done }
}

// identify does what the server's own interceptor does.
func identify(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	from, _ := peer.FromContext(ss.Context())
	p, err := identity.PeerOf(from.AuthInfo.(credentials.TLSInfo).State)
	if err != nil {
		return err
	}
	return next(srv, &identified{ss, identity.WithPeer(ss.Context(), p)})
}

type identified struct {
	grpc.ServerStream
	ctx context.Context
}

func (i *identified) Context() context.Context { return i.ctx }

func (n *network) change(f func(*store.Tx) error) store.Rev {
	n.t.Helper()
	rev, err := n.store.Change(n.t.Context(), store.By{Actor: "test"}, "test", f)
	if err != nil {
		n.t.Fatal(err)
	}
	return rev
}

// addCore makes a core of the cell, as enrolling does.
func (n *network) addCore(name string) *fake {
	n.t.Helper()
	id := n.ids.Identity(mesh.RoleCore)
	n.change(func(tx *store.Tx) error {
		c := mesh.Core{ID: mesh.CoreID(id.ID), Name: name, Member: n.member.ID, Cell: n.cell.ID, State: mesh.CoreJoined, Joined: time.Now().UTC()}
		return store.Create(tx, n.store.Cores, c.ID, c)
	})
	return n.fake(id)
}

func (n *network) addEntry(name string) *fake {
	n.t.Helper()
	id := n.ids.Identity(mesh.RoleEntry)
	n.change(func(tx *store.Tx) error {
		return store.Create(tx, n.store.Entries, mesh.EntryID(id.ID), mesh.Entry{ID: mesh.EntryID(id.ID), Name: name})
	})
	return n.fake(id)
}

// addDevice makes a device of the cell, and its routes as far as they may be,
// as the Admin service does.
func (n *network) addDevice(name string) mesh.Device {
	n.t.Helper()
	id := mesh.NewDeviceID()
	d := mesh.Device{ID: id, Member: n.member.ID, Name: name, State: mesh.DeviceActive,
		Labels: []mesh.Label{{Label: mesh.NewLabel()}}, HiddenLabel: mesh.NewLabel(),
		Verifiers: mesh.NewVerifiers(id, "secret"), Assigned: mesh.Assignment{Cell: n.cell.ID}}
	n.change(func(tx *store.Tx) error {
		if err := store.Create(tx, n.store.Devices, id, d); err != nil {
			return err
		}
		return store.SyncRoutes(tx, id, time.Now())
	})
	return d
}

func (n *network) core(f *fake) mesh.Core {
	n.t.Helper()
	it, err := n.store.Cores.Get(n.t.Context(), mesh.CoreID(f.id.ID))
	if err != nil {
		n.t.Fatal(err)
	}
	return it.Value
}

func (n *network) status(f *fake) mesh.NodeStatus {
	n.t.Helper()
	it, err := n.store.Status.Get(n.t.Context(), f.id.Node())
	if err != nil {
		return mesh.NodeStatus{}
	}
	return it.Value
}

func (n *network) events(t mesh.EventType, object string) []mesh.Event {
	n.t.Helper()
	all, _, err := n.store.Events.List(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	var out []mesh.Event
	for _, e := range all {
		if e.Type == t && e.Object == object {
			out = append(out, e)
		}
	}
	return out
}

func (n *network) wantEvent(t mesh.EventType, object string) mesh.Event {
	n.t.Helper()
	eventually(n.t, "event "+string(t)+" of "+object, func() bool { return len(n.events(t, object)) > 0 })
	return n.events(t, object)[0]
}

// waitServed waits until the service itself says that d is served. Its mirrors
// may be a moment behind what the test has read from the store.
func (n *network) waitServed(d mesh.Device) {
	n.t.Helper()
	eventually(n.t, "device is served", func() bool { return n.svc.WaitServed(n.t.Context(), d.ID) == nil })
}

// via are the cores that the device's route names.
func (n *network) via(d mesh.Device) []string {
	n.t.Helper()
	r, err := n.store.Routes.Get(n.t.Context(), mesh.ServerName(d.Labels[0].Label)+"."+n.cell.Suffix)
	if err != nil {
		return nil
	}
	var out []string
	for _, h := range r.Value.Hops {
		out = append(out, h.ID)
	}
	return out
}

// eventually polls until ok or the test has no patience left.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patient)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within %v: %s", patient, what)
		}
	}
}

// never polls for a moment that ok stays false.
func never(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	over := time.After(300 * time.Millisecond)
	for {
		if ok() {
			t.Fatalf("happened: %s", what)
		}
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}
