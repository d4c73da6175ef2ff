package nodes

import (
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// restored is a mesh that was restored from a backup and begins to serve after wait.
func restored(t *testing.T, wait time.Duration, prepare func(*network)) *network {
	t.Helper()
	n := newNetwork(t, quick(), loopback...)
	n.stop()
	prepare(n)
	n.setConfig(func(c *mesh.Config) {
		c.Epoch, c.EpochProof = 2, n.ids.Epoch(t, 2)
		c.Restored = mesh.Restored{At: time.Now(), Epoch: 2, Collect: mesh.Duration(wait)}
	})
	n.start(quick())
	return n
}

func (n *network) collected() bool { return !n.svc.Collecting() }

func handOver(m *controlpb.HandOver) *controlpb.NodeMessage {
	return &controlpb.NodeMessage{Body: &controlpb.NodeMessage_HandOver{HandOver: m}}
}

func held(recs ...mesh.SignedRevocation) *controlpb.HandOver {
	m := &controlpb.HandOver{}
	for _, r := range recs {
		sum := sha256.Sum256(r.Payload)
		m.Held = append(m.Held, sum[:])
	}
	return m
}

func records(recs ...mesh.SignedRevocation) *controlpb.HandOver {
	m := &controlpb.HandOver{}
	for _, r := range recs {
		m.Records = append(m.Records, &controlpb.SignedRevocation{Payload: r.Payload, Signature: r.Signature, Signer: r.Signer})
	}
	return m
}

// handsOver does what a node does that keeps recs, and returns how many it was
// asked for.
func (l *line) handsOver(recs ...mesh.SignedRevocation) (asked int) {
	l.t.Helper()
	byDigest := map[digest]mesh.SignedRevocation{}
	for _, r := range recs {
		byDigest[sha256.Sum256(r.Payload)] = r
	}
	for part := range slices.Chunk(append(recs, mesh.SignedRevocation{})[:len(recs)], 9000) {
		m := held(part...)
		m.More = true
		l.send(handOver(m))
	}
	l.send(handOver(&controlpb.HandOver{}))
	for {
		m := l.next()
		switch {
		case m == nil:
			l.t.Fatalf("the stream ended: %v", l.end)
		case m.GetHandedOver() != nil:
			return asked
		case m.GetHandBack() != nil:
			var send []mesh.SignedRevocation
			for _, k := range m.GetHandBack().GetLacking() {
				send = append(send, byDigest[digest(k)])
			}
			asked += len(send)
			for part := range slices.Chunk(send, 300) {
				out := records(part...)
				out.More = true
				l.send(handOver(out))
			}
			l.send(handOver(&controlpb.HandOver{}))
		case m.GetConfig() != nil, m.GetRevocations() != nil, m.GetDevices() != nil:
			l.t.Fatalf("served before it was heard: %v", m)
		}
	}
}

func (n *network) signed(t *testing.T, r mesh.Revocation) mesh.SignedRevocation {
	t.Helper()
	r.ID = store.NewTimeID(time.Now())
	return n.ids.Revoke(t, r)
}

// The mesh serves once every core and entry was heard, whoever of them hands over.
func TestARestoredMeshServesOnceItsNodesWereHeard(t *testing.T) {
	t.Parallel()
	var a, b, gone *fake
	n := restored(t, time.Hour, func(n *network) {
		a, b, gone = n.addEntry("a"), n.addCore("b"), n.addEntry("gone")
	})
	d := n.addDevice("phone")
	lost := n.signed(t, mesh.Revocation{Node: gone.id.Node(), IssuedBefore: time.Now().Add(time.Hour)})
	device := n.signed(t, mesh.Revocation{Node: mesh.ObjectDevice + string(d.ID), IssuedBefore: time.Now()})

	first := a.greet()
	if asked := first.handsOver(lost, device); asked != 2 {
		t.Errorf("asked for %d", asked)
	}
	eventually(t, "in force at once", func() bool { return n.svc.Revocations.Check(identity.Peer{Identity: gone.id}) != nil })
	second := b.greet()
	if n.collected() {
		t.Fatal("it serves before the core was heard")
	}
	if asked := second.handsOver(lost, device); asked != 0 {
		t.Errorf("asked again for %d", asked)
	}
	eventually(t, "it serves", n.collected)
	until(first, (*controlpb.MgmtMessage).GetRevocations)
	until(second, (*controlpb.MgmtMessage).GetRevocations)
	if it, err := n.store.Devices.Get(t.Context(), d.ID); err != nil || it.Value.State != mesh.DeviceRevoked {
		t.Errorf("the device is %s, %v", it.Value.State, err)
	}
	if e := n.events(mesh.EventMeshCollected, "config/mesh"); len(e) != 1 || e[0].Severity != mesh.Info || !strings.Contains(e[0].Cause, "2 of 2") {
		t.Errorf("events %+v", e)
	}
	// Nobody is asked again who was heard.
	first.hangUp()
	a.hello.Boot, a.hello.HandedEpoch = 2, 2
	l := a.sayHello()
	if w := l.next().GetWelcome(); w == nil || w.GetHandOver() {
		t.Errorf("welcome %v", w)
	}
}

// A mesh does not wait for ever, says for whom it waited, and takes back later
// what they know.
func TestARestoredMeshDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	var away, victim *fake
	n := restored(t, 300*time.Millisecond, func(n *network) { away, victim = n.addEntry("away"), n.addEntry("victim") })
	eventually(t, "it serves", n.collected)
	e := n.events(mesh.EventMeshCollected, "config/mesh")
	if len(e) != 1 || e[0].Severity != mesh.Warning || !strings.Contains(e[0].Cause, "entry away") || e[0].Advice == "" {
		t.Errorf("events %+v", e)
	}
	served := victim.greet()
	l := away.sayHello()
	if w := l.next().GetWelcome(); !w.GetHandOver() {
		t.Fatalf("welcome %v", w)
	}
	rec := n.signed(t, mesh.Revocation{Node: victim.id.Node(), IssuedBefore: time.Now().Add(time.Hour)})
	l.send(handOver(held(rec)))
	if ask := until(l, (*controlpb.MgmtMessage).GetHandBack); len(ask.GetLacking()) != 1 {
		t.Fatalf("asked for %v", ask)
	}
	l.send(handOver(records(rec)))
	until(l, (*controlpb.MgmtMessage).GetHandedOver)
	served.wantEnd(codes.PermissionDenied, "was revoked")
}

// A node that keeps thousands of records hands over all of them.
func TestThousandsOfRevocationsAreTakenBack(t *testing.T) {
	t.Parallel()
	var f *fake
	n := restored(t, time.Hour, func(n *network) { f = n.addEntry("e") })
	const number = askedAtOnce + 700
	var recs []mesh.SignedRevocation
	for range number {
		recs = append(recs, n.signed(t, mesh.Revocation{Node: mesh.ObjectDevice + string(mesh.NewDeviceID()), IssuedBefore: time.Now()}))
	}
	began := time.Now()
	if asked := f.greet().handsOver(recs...); asked != number {
		t.Errorf("asked for %d of %d", asked, number)
	}
	t.Logf("%d records in %v", number, time.Since(began))
	eventually(t, "all are there", func() bool { return len(n.svc.view.revocations.All()) == number })
}

func TestWhatIsNotTakenBack(t *testing.T) {
	t.Parallel()
	var f *fake
	n := restored(t, time.Hour, func(n *network) { f = n.addEntry("e") })
	foreign := identitytest.NewWithID(t, n.ids.ID)
	forged := foreign.Revoke(t, mesh.Revocation{ID: store.NewTimeID(time.Now()), Node: f.id.Node(), IssuedBefore: time.Now()})
	asked := n.signed(t, mesh.Revocation{Node: f.id.Node(), IssuedBefore: time.Now()})

	for _, tt := range []struct {
		name string
		send []*controlpb.HandOver
		code codes.Code
		text string
	}{
		{"a record before any was asked for", []*controlpb.HandOver{records(asked)}, codes.InvalidArgument, "before any"},
		{"a sum that is none", []*controlpb.HandOver{{Held: [][]byte{{1}}}}, codes.InvalidArgument, "digest of 1 bytes"},
		{"another record than was asked for", []*controlpb.HandOver{held(asked), records(forged)}, codes.InvalidArgument, "not asked for"},
		{"a record that nobody of the mesh signed", []*controlpb.HandOver{held(forged), records(forged)}, codes.PermissionDenied, "root"},
	} {
		f.hello.Boot++
		l := f.greet()
		for _, m := range tt.send {
			l.send(handOver(m))
		}
		l.wantEnd(tt.code, tt.text)
		if len(n.svc.view.revocations.All()) != 0 {
			t.Fatalf("%s: taken", tt.name)
		}
	}

	// A thief of a server's key can sign what it likes, and put nobody out who
	// is a server now.
	own := n.svc.Server
	inter := n.ids.Intermediate.SerialNumber.String()
	f.hello.Boot++
	l := f.greet()
	l.handsOver(
		n.signed(t, mesh.Revocation{Node: "mgmt/" + string(own), IssuedBefore: time.Now().Add(time.Hour)}),
		n.signed(t, mesh.Revocation{Serial: inter}),
		n.signed(t, mesh.Revocation{Serial: n.server.Leaf().SerialNumber.String()}),
		n.signed(t, mesh.Revocation{Node: "core/" + string(mesh.NewCoreID()), IssuedBefore: time.Now(), Until: time.Now().Add(-time.Minute)}),
	)
	eventually(t, "it serves", n.collected)
	if all := n.svc.view.revocations.All(); len(all) != 0 {
		t.Errorf("taken back: %v", all)
	}
	l.send(handOver(held(asked)))
	l.wantEnd(codes.PermissionDenied, "not asked for")
}
