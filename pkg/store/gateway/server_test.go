package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/gateway"
)

const (
	caKey = "/mesh/v1/ca/root"
	name  = mesh.ServerName("abcdefgh.a.example.net")
)

// D-11: etcd's own access control was bypassed four times in 2026. An entry has
// no etcd credential; this is the list of what it must not get from the gateway.
func TestWhatIsNotOneRouteOrTargetIsDenied(t *testing.T) {
	m := startMgmt(t)
	m.put(t, caKey, map[string]string{"secret": "canary"})
	route := gateway.RouteKey(name)
	m.putRoute(t, name, mesh.NewCoreID())
	c := m.etcdClient(t)
	get := clientv3.OpGet(route)
	many := make([]clientv3.Op, gateway.MaxTxnReads+1)
	for i := range many {
		many[i] = get
	}
	txn := func(then ...clientv3.Op) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.Txn(ctx).Then(then...).Commit(); return err }
	}
	read := func(key string, opts ...clientv3.OpOption) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.Get(ctx, key, opts...); return err }
	}
	tests := []struct {
		name string
		call func(context.Context) error
	}{
		{"a key elsewhere", read(caKey)},
		{"the folder of routes", read("/mesh/v1/routes/")},
		{"a route below a route", read(route + "/x")},
		{"a way out of the folder", read("/mesh/v1/routes/../ca/root")},
		{"a name that is not folded", read("/mesh/v1/routes/ABCDEFGH.a.example.net")},
		{"a name with its last dot", read(route + ".")},
		{"a name that is an address", read("/mesh/v1/routes/127.0.0.1")},
		{"a target that is a device", read("/mesh/v1/targets/" + string(mesh.NewDeviceID()))},
		{"a target that is none", read("/mesh/v1/targets/core-")},
		{"a prefix", read(route, clientv3.WithPrefix())},
		{"a range", read(route, clientv3.WithRange("/mesh/v1/s"))},
		{"everything from a key on", read(route, clientv3.WithFromKey())},
		{"a past revision", read(route, clientv3.WithRev(1))},
		{"a count", read(route, clientv3.WithCountOnly())},
		{"keys only", read(route, clientv3.WithKeysOnly())},
		{"a limit", read(route, clientv3.WithLimit(1))},
		{"a filter by revision", read(route, clientv3.WithMinModRev(1))},
		{"a put", func(ctx context.Context) error { _, err := c.Put(ctx, route, "x"); return err }},
		{"a put that returns what was there", func(ctx context.Context) error {
			_, err := c.Put(ctx, caKey, "x", clientv3.WithPrevKV())
			return err
		}},
		{"a delete", func(ctx context.Context) error { _, err := c.Delete(ctx, route); return err }},
		{"a delete that returns what was there", func(ctx context.Context) error {
			_, err := c.Delete(ctx, "/", clientv3.WithPrefix(), clientv3.WithPrevKV())
			return err
		}},
		{"a compaction", func(ctx context.Context) error { _, err := c.Compact(ctx, 1); return err }},
		{"a transaction that writes", txn(clientv3.OpPut(route, "x"))},
		{"a transaction that reads and writes", txn(get, clientv3.OpDelete(route))},
		{"a transaction that reads elsewhere", txn(get, clientv3.OpGet(caKey))},
		{"a transaction that reads a range", txn(clientv3.OpGet(route, clientv3.WithPrefix()))},
		{"a transaction in a transaction", txn(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpGet(caKey)}, nil))},
		{"an empty transaction", txn()},
		{"a transaction of 65 reads", txn(many...)},
		{"a transaction that tests a value", func(ctx context.Context) error {
			_, err := c.Txn(ctx).If(clientv3.Compare(clientv3.Value(caKey), ">", "a")).Then(get).Commit()
			return err
		}},
		{"a transaction with a second branch", func(ctx context.Context) error {
			_, err := c.Txn(ctx).Then(get).Else(get).Commit()
			return err
		}},
		{"a lease", func(ctx context.Context) error { _, err := c.Grant(ctx, 60); return err }},
		{"the end of another's lease", func(ctx context.Context) error { _, err := c.Revoke(ctx, 1); return err }},
		{"a list of leases", func(ctx context.Context) error { _, err := c.Leases(ctx); return err }},
		{"the time left to a lease", func(ctx context.Context) error {
			_, err := c.TimeToLive(ctx, 1, clientv3.WithAttachedKeys())
			return err
		}},
		{"the list of members", func(ctx context.Context) error { _, err := c.MemberList(ctx); return err }},
		{"a new member", func(ctx context.Context) error { _, err := c.MemberAdd(ctx, []string{"http://x:1"}); return err }},
		{"the list of alarms", func(ctx context.Context) error { _, err := c.AlarmList(ctx); return err }},
		{"the end of an alarm", func(ctx context.Context) error {
			_, err := c.AlarmDisarm(ctx, &clientv3.AlarmMember{})
			return err
		}},
		{"the status", func(ctx context.Context) error { _, err := c.Status(ctx, c.Endpoints()[0]); return err }},
		{"a hash of everything", func(ctx context.Context) error { _, err := c.HashKV(ctx, c.Endpoints()[0], 0); return err }},
		{"a snapshot", func(ctx context.Context) error {
			r, err := c.Snapshot(ctx)
			if err != nil {
				return err
			}
			_, err = r.Read(make([]byte, 1))
			return err
		}},
		{"another leader", func(ctx context.Context) error { _, err := c.MoveLeader(ctx, 1); return err }},
		{"the list of users", func(ctx context.Context) error { _, err := c.UserList(ctx); return err }},
		{"the end of access control", func(ctx context.Context) error { _, err := c.AuthDisable(ctx); return err }},
		{"a stream of a range", func(ctx context.Context) error {
			s, err := pb.NewKVClient(c.ActiveConnection()).RangeStream(ctx, &pb.RangeRequest{Key: []byte(route)})
			if err != nil {
				return err
			}
			_, err = s.Recv()
			return err
		}},
		{"a service that does not exist", func(ctx context.Context) error {
			return c.ActiveConnection().Invoke(ctx, "/v3lockpb.Lock/Lock", &pb.RangeRequest{}, &pb.RangeResponse{})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			wantDenied(t, tt.call(ctx))
		})
	}
	r, err := m.etcd.Get(t.Context(), "/", clientv3.WithPrefix())
	if err != nil || len(r.Kvs) != 2 {
		t.Errorf("the store holds %d keys (%v), want the 2 it had", len(r.Kvs), err)
	}
}

func wantDenied(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "not allowed here") {
		t.Errorf("got %v, want the gateway's refusal", err)
	}
	if strings.Contains(err.Error(), "canary") {
		t.Error("the refusal tells what is stored")
	}
}

func TestWatchesThatAreDenied(t *testing.T) {
	m := startMgmt(t)
	m.put(t, caKey, map[string]string{"secret": "canary"})
	route := gateway.RouteKey(name)
	tests := []struct {
		name string
		key  string
		opts []clientv3.OpOption
	}{
		{"of a key elsewhere", caKey, nil},
		{"of a prefix", route, []clientv3.OpOption{clientv3.WithPrefix()}},
		{"of everything from a key on", route, []clientv3.OpOption{clientv3.WithFromKey()}},
		{"with the value before", route, []clientv3.OpOption{clientv3.WithPrevKV()}},
		{"with a filter", route, []clientv3.OpOption{clientv3.WithFilterPut()}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := m.etcdClient(t)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var last error
			for r := range c.Watch(ctx, tt.key, append(tt.opts, clientv3.WithRev(1))...) {
				if len(r.Events) > 0 {
					t.Errorf("got an event of %s", r.Events[0].Kv.Key)
				}
				last = r.Err()
			}
			wantDenied(t, last)
		})
	}
}

// etcd's own client works unchanged for what is allowed.
func TestEtcdsClientReadsAndWatches(t *testing.T) {
	m := startMgmt(t)
	core := mesh.NewCoreID()
	m.putRoute(t, name, core)
	m.putTarget(t, core, mesh.CoreJoined)
	c := m.etcdClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stored, err := m.etcd.Get(ctx, gateway.RouteKey(name))
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range [][]clientv3.OpOption{nil, {clientv3.WithSerializable()}} {
		r, err := c.Get(ctx, gateway.RouteKey(name), opts...)
		if err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != string(stored.Kvs[0].Value) {
			t.Fatalf("Get: %v, %v; want the stored bytes", r, err)
		}
	}
	r, err := c.Txn(ctx).Then(clientv3.OpGet(gateway.TargetKey(string(core))), clientv3.OpGet(gateway.RouteKey("x.example.net"))).Commit()
	if err != nil || len(r.Responses) != 2 || r.Responses[0].GetResponseRange().Count != 1 || r.Responses[1].GetResponseRange().Count != 0 {
		t.Fatalf("Txn: %v, %v", r, err)
	}
	w := c.Watch(clientv3.WithRequireLeader(ctx), gateway.TargetKey(string(core)), clientv3.WithCreatedNotify(), clientv3.WithProgressNotify())
	if r := <-w; !r.Created {
		t.Fatalf("first response of the watch: %+v", r)
	}
	if err := c.RequestProgress(clientv3.WithRequireLeader(ctx)); err != nil {
		t.Fatal(err)
	}
	if r := <-w; !r.IsProgressNotify() {
		t.Fatalf("after a request for progress: %+v", r)
	}
	m.putTarget(t, core, mesh.CoreReady)
	if r := <-w; len(r.Events) != 1 || string(r.Events[0].Kv.Key) != gateway.TargetKey(string(core)) {
		t.Fatalf("after a change: %+v", r)
	}
}

func TestAReplyWithoutALeaderSaysSo(t *testing.T) {
	m := startMgmt(t)
	m.putRoute(t, name, mesh.NewCoreID())
	kv := pb.NewKVClient(m.etcdClient(t).ActiveConnection())
	for _, none := range []bool{false, true} {
		m.noLeader.Store(none)
		var trailer metadata.MD
		_, err := kv.Range(t.Context(), &pb.RangeRequest{Key: []byte(gateway.RouteKey(name)), Serializable: true}, grpc.Trailer(&trailer), grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(trailer.Get(gateway.NoLeader)) > 0; got != none {
			t.Errorf("no leader is %v, the trailer says %v", none, got)
		}
	}
}

// The budget delays what needs a quorum, then refuses it, and never touches the
// rest, nor another entry.
func TestTheBudgetIsForMissesOfOneEntry(t *testing.T) {
	m := startMgmt(t, func(s *gateway.Server) { s.MissRate, s.MissBurst = 0.001, 3 })
	c, other := m.etcdClient(t), m.etcdClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	key := gateway.RouteKey(name)
	for i := range 3 {
		if _, err := c.Get(ctx, key); err != nil {
			t.Fatalf("read %d within the budget: %v", i, err)
		}
	}
	if _, err := c.Get(ctx, key); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("read beyond the budget: %v, want ResourceExhausted", err)
	}
	if _, err := c.Txn(ctx).Then(clientv3.OpGet(key)).Commit(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("transaction beyond the budget: %v, want ResourceExhausted", err)
	}
	for range 50 {
		if _, err := c.Get(ctx, key, clientv3.WithSerializable()); err != nil {
			t.Fatalf("a read that needs no quorum: %v", err)
		}
	}
	if _, err := other.Get(ctx, key); err != nil {
		t.Errorf("another entry's read: %v", err)
	}
}

func TestWatchesAreBoundedPerStreamAndStreamsPerEntry(t *testing.T) {
	m := startMgmt(t, func(s *gateway.Server) { s.MaxStreams, s.MaxWatches = 1, 2 })
	c := m.etcdClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	open := func(ctx context.Context) clientv3.WatchChan {
		return c.Watch(ctx, gateway.TargetKey(string(mesh.NewCoreID())), clientv3.WithCreatedNotify())
	}
	one, end := context.WithCancel(ctx)
	first := open(one)
	second := open(ctx)
	for _, w := range []clientv3.WatchChan{first, second} {
		if r := <-w; !r.Created || r.Err() != nil {
			t.Fatalf("a watch within the limit: %+v", r)
		}
	}
	if r := <-open(ctx); r.Created && r.Err() == nil {
		t.Fatalf("a third watch: %+v, want none", r)
	}
	if w, err := pb.NewWatchClient(c.ActiveConnection()).Watch(ctx); err != nil {
		t.Fatal(err)
	} else if _, err := w.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second stream: %v, want ResourceExhausted", err)
	}
	end()
	eventually(t, "a watch in the place of a cancelled one", func() bool {
		r := <-open(ctx)
		return r.Created && r.Err() == nil
	})
}
