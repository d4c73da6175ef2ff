package nodes

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestCoreBecomesReady(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	f := n.addCore("core-1")
	f.relay(f.node)
	l := f.sayHello()
	w := until(l, (*controlpb.MgmtMessage).GetWelcome)
	if w.GetMeshId() != string(n.ids.ID) || w.GetMeshEpoch() != 1 || w.GetServer() != n.server.Identity().ID {
		t.Errorf("welcome %v", w)
	}
	if off := time.Since(time.Unix(0, w.GetClockUnixNanos())); off.Abs() > patient {
		t.Errorf("welcome's clock is %v off", off)
	}
	f.live(l, nil)
	c := n.wantState(f, mesh.CoreReady)
	if !c.EverReady || len(c.Addresses) != 1 || c.Addresses[0].Port() != uint16(f.hello.GetRelayPort()) || c.Version != "test" {
		t.Errorf("core %+v", c)
	}
	target, err := n.store.Targets.Get(t.Context(), f.id.ID)
	if err != nil || target.Value.State != mesh.CoreReady || target.Value.Identity != f.id.String() {
		t.Errorf("target %+v, %v", target.Value, err)
	}
	n.wantEvent(mesh.EventCoreReady, f.id.Node())
	eventually(t, "status", func() bool {
		st := n.status(f)
		return st.Connected && st.ConfigRev > 0 && st.DevicesRev > 0 && st.Instance == "one"
	})
	if lines := n.svc.Connected(); len(lines) != 1 || lines[0].Node != f.id.Node() || lines[0].Name != "core-1" {
		t.Errorf("connected %+v", lines)
	}
	l.hangUp()
	eventually(t, "status tells of the end", func() bool { return !n.status(f).Connected })
	if c := n.core(f); c.State != mesh.CoreReady {
		t.Errorf("a core that was away a moment is %s", c.State)
	}
}

func TestFirstMessages(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	core, entry := n.addCore("c"), n.addEntry("e")
	stranger := n.fake(n.ids.Identity(mesh.RoleCore))
	revoked := n.addCore("r")
	banned := n.addEntry("b")
	n.change(func(tx *store.Tx) error {
		err := store.Update(tx, n.store.Entries, mesh.EntryID(banned.id.ID), func(e *mesh.Entry) error { e.Revoked, e.Banned = true, true; return nil })
		if err != nil {
			return err
		}
		return store.Update(tx, n.store.Cores, mesh.CoreID(revoked.id.ID), func(c *mesh.Core) error { c.Revoked = true; return nil })
	})
	eventually(t, "the server knows of both", func() bool {
		c, _ := n.svc.view.cores.Get(mesh.CoreID(revoked.id.ID))
		e, _ := n.svc.view.entries.Get(mesh.EntryID(banned.id.ID))
		return c.Revoked && e.Banned
	})
	hello := func(h *controlpb.Hello) *controlpb.NodeMessage {
		if h.GetClockUnixNanos() == 0 {
			h.ClockUnixNanos = time.Now().UnixNano()
		}
		return &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Hello{Hello: h}}
	}
	at := func(d time.Duration) int64 { return time.Now().Add(d).UnixNano() }
	tests := map[string]struct {
		from *fake
		send *controlpb.NodeMessage
		code codes.Code
		text string
	}{
		"something else":                  {core, &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Ping{Ping: &controlpb.Ping{}}}, codes.InvalidArgument, "must be a hello"},
		"a hello without instance":        {core, hello(&controlpb.Hello{}), codes.InvalidArgument, "without instance"},
		"a clock an hour ahead":           {core, hello(&controlpb.Hello{Instance: "x", ClockUnixNanos: at(time.Hour)}), codes.FailedPrecondition, "the node says "},
		"a clock in 1970":                 {core, hello(&controlpb.Hello{Instance: "x", ClockUnixNanos: 1}), codes.FailedPrecondition, "the node says 1970-01-01T00:00:00Z, this server 20"},
		"an entry that talks like a core": {entry, hello(&controlpb.Hello{Instance: "x", RelayPort: 1}), codes.PermissionDenied, "only cores say"},
		"a core the mesh does not have":   {stranger, hello(&controlpb.Hello{Instance: "x"}), codes.PermissionDenied, "not of this mesh any more"},
		"a core that is revoked":          {revoked, hello(&controlpb.Hello{Instance: "x"}), codes.PermissionDenied, "is revoked"},
		"an entry that is banned":         {banned, hello(&controlpb.Hello{Instance: "x"}), codes.PermissionDenied, "is banned"},
		"an egress range that is none":    {core, hello(&controlpb.Hello{Instance: "x", Egress: &controlpb.Egress{Allow: []string{"x"}}}), codes.InvalidArgument, "egress range"},
		"a text without end":              {core, hello(&controlpb.Hello{Instance: "x", Version: string(make([]byte, 300))}), codes.InvalidArgument, "300 bytes"},
		"a list without end":              {core, hello(&controlpb.Hello{Instance: "x", Advertise: make([]string, 100)}), codes.InvalidArgument, "100 addresses"},
		"an administrator":                {n.fake(n.ids.Identity(mesh.RoleAdmin)), hello(&controlpb.Hello{Instance: "x"}), codes.PermissionDenied, "only cores and entries"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := tt.from.dial()
			l.send(tt.send)
			l.wantEnd(tt.code, tt.text)
		})
	}
	n.wantEvent(mesh.EventNodeMisbehaved, core.id.Node())
	n.wantEvent(mesh.EventNodeMisbehaved, entry.id.Node())
	n.wantEvent(mesh.EventClockOff, core.id.Node())
}

func TestNoHello(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, Settings{HelloWait: 100 * time.Millisecond})
	n.addEntry("e").dial().wantEnd(codes.Unavailable, "no hello within 100ms")
}

func TestClockWarns(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addEntry("e")
	f.hello.ClockUnixNanos = time.Now().Add(-30 * time.Second).UnixNano()
	f.live(f.greet(), nil)
	if e := n.wantEvent(mesh.EventClockOff, f.id.Node()); e.Severity != mesh.Warning {
		t.Errorf("event %+v", e)
	}
	eventually(t, "status has the offset", func() bool { return n.status(f).ClockOff < -20*time.Second })
	eventually(t, "the entry has its version", func() bool {
		e, err := n.store.Entries.Get(t.Context(), mesh.EntryID(f.id.ID))
		return err == nil && e.Value.Version == "test"
	})
}

// Entries must not talk like cores, nor cores like entries.
func TestWrongRole(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	tests := map[string]struct {
		role mesh.Role
		send *controlpb.NodeMessage
		text string
	}{
		"an entry acknowledges a device table":   {mesh.RoleEntry, &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Ack{Ack: &controlpb.Ack{Kind: controlpb.Ack_KIND_DEVICES, Revision: 1}}}, "(ack)"},
		"an entry confirms a probe":              {mesh.RoleEntry, &controlpb.NodeMessage{Body: &controlpb.NodeMessage_ProbeReady{ProbeReady: &controlpb.ProbeReady{}}}, "(probe_ready)"},
		"an entry asks for a cell's certificate": {mesh.RoleEntry, &controlpb.NodeMessage{Body: &controlpb.NodeMessage_CellRequest{CellRequest: &controlpb.CellRequest{}}}, "(cell_request)"},
		"an entry reports usage":                 {mesh.RoleEntry, &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Usage: []*controlpb.DeviceUsage{{}}}}}, "(report)"},
		"a core reports dials":                   {mesh.RoleCore, &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Dials: []*controlpb.DialResult{{}}}}}, "(report)"},
		"a core reports its policy":              {mesh.RoleCore, &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Policy: "enforced"}}}, "(report)"},
		"a core says hello twice":                {mesh.RoleCore, &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Hello{Hello: &controlpb.Hello{}}}, "(hello)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := n.addEntry(name)
			if tt.role == mesh.RoleCore {
				f = n.addCore(name)
			}
			l := f.greet()
			l.send(tt.send)
			l.wantEnd(codes.PermissionDenied, tt.text)
			n.wantEvent(mesh.EventNodeMisbehaved, f.id.Node())
		})
	}
}

func TestBadAcknowledgementsEndTheStream(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addEntry("e")
	l := f.greet()
	l.ack(controlpb.Ack_KIND_CONFIG, 1<<60, "")
	l.wantEnd(codes.InvalidArgument, "sent was")

	f = n.addEntry("f")
	l = f.greet()
	for range 20 {
		l.ack(controlpb.Ack_KIND_CONFIG, 0, "")
	}
	l.wantEnd(codes.Unavailable, "everything anew too often")

	f = n.addEntry("g")
	l = f.greet()
	l.flood(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{}}})
	l.wantEnd(codes.Unavailable, "messages a second")

	f = n.addEntry("h")
	l = f.greet()
	l.flood(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{State: strings.Repeat("x", MaxMessage-100)}}})
	l.wantEnd(codes.Unavailable, "bytes a second")
	n.wantEvent(mesh.EventNodeMisbehaved, f.id.Node())
}

// H-03: a stream whose other end is gone without a word is ended within two and
// a half pings.
func TestSilentNodeIsDropped(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Ping = 300 * time.Millisecond
	n := newNetwork(t, times)
	f := n.addEntry("e")
	began := time.Now()
	l := f.greet() // reads, but never answers
	l.wantEnd(codes.Unavailable, "has been silent for")
	if took := time.Since(began); took < 2*times.Ping {
		t.Errorf("ended after %v, before two pings could be missed", took)
	}
	eventually(t, "status tells of the end", func() bool { st := n.status(f); return st.Node != "" && !st.Connected })
}

func TestPongsKeepAStream(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Ping = 2 * time.Second // a pong may take three more on a busy machine
	n := newNetwork(t, times)
	f := n.addEntry("e")
	l := f.greet()
	f.live(l, nil)
	first := n.svc.Connected()[0].Connected
	eventually(t, "silence would have ended it", func() bool { return time.Since(first) > 3*times.Ping })
	if lines := n.svc.Connected(); len(lines) != 1 || !lines[0].Connected.Equal(first) {
		t.Errorf("connected %+v, want the first stream", lines)
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addEntry("e")
	first := f.greet()

	f.hello.Boot = 2
	second := f.greet()
	first.wantEnd(codes.FailedPrecondition, "a later stream of this node took over")

	f.hello.Boot = 1
	f.sayHello().wantEnd(codes.FailedPrecondition, "a later start of this node")
	f.hello.Instance, f.hello.Boot = "two", 9
	f.sayHello().wantEnd(codes.FailedPrecondition, "another node with this identity is connected from 127.0.0.1")
	if e := n.wantEvent(mesh.EventDuplicateNode, f.id.Node()); e.Severity != mesh.Critical || e.Advice == "" {
		t.Errorf("event %+v", e)
	}
	if n := len(n.svc.Connected()); n != 1 {
		t.Errorf("%d connected, want 1", n)
	}

	second.hangUp()
	eventually(t, "the first is gone", func() bool { return len(n.svc.Connected()) == 0 })
	f.greet() // now the other may come
}

func TestGoodbye(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addEntry("e")
	l := f.greet()
	idle := f.dial() // never says hello
	go n.stop()
	if g := until(l, (*controlpb.MgmtMessage).GetGoodbye); g.GetReason() == "" {
		t.Error("goodbye without a reason")
	}
	l.wantEnd(codes.Unknown, "EOF") // a clean end
	idle.wantEnd(codes.Unavailable, "")
	n.stop()
	if st := n.status(f); st.Node == "" || st.Connected {
		t.Errorf("status after the server stopped: %+v", st)
	}

	f.hello.Boot++
	other := newNetwork(t, quick())
	g := other.addEntry("e")
	l = g.greet()
	l.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Goodbye{Goodbye: &controlpb.Goodbye{}}})
	l.wantEnd(codes.Unknown, "EOF")
}
