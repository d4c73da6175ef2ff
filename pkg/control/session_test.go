package control

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// fakeRole notes what it is told.
type fakeRole struct {
	refuse  error
	applied []int64
	handled int
	reports []*controlpb.Report
	unsent  []*controlpb.Report
}

func (r *fakeRole) Hello(h *controlpb.Hello) { h.RelayPort = 8444 }
func (r *fakeRole) ApplyConfig(_ context.Context, c *controlpb.Config) error {
	if r.refuse == nil {
		r.applied = append(r.applied, c.GetRevision())
	}
	return r.refuse
}
func (r *fakeRole) Handle(context.Context, *controlpb.MgmtMessage, Send) error {
	r.handled++
	return nil
}
func (r *fakeRole) Report() *controlpb.Report {
	if len(r.reports) == 0 {
		return nil
	}
	next := r.reports[0]
	r.reports = r.reports[1:]
	return next
}
func (r *fakeRole) Unsent(x *controlpb.Report) { r.unsent = append(r.unsent, x) }

// bench is a session without a network: sent holds what it queued.
type bench struct {
	*session
	mesh *identitytest.Mesh
	role *fakeRole
	sent []*controlpb.NodeMessage
	log  bytes.Buffer
}

func newBench(t *testing.T, role mesh.Role) *bench {
	t.Helper()
	m := identitytest.New(t)
	b := &bench{mesh: m, role: &fakeRole{}}
	log := slog.New(slog.NewTextHandler(&b.log, nil))
	st, err := OpenState(t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	home := &PhoneHome{Node: m.Node(t, role), State: st, Revocations: m.Revocations(t), Role: b.role, Version: "1.2.3", Log: log}
	b.session = &session{home: home, running: &running{}, opened: func(*controlpb.Welcome) {}}
	b.send = func(m *controlpb.NodeMessage) error { b.sent = append(b.sent, m); return nil }
	return b
}

func (b *bench) last() *controlpb.NodeMessage {
	if len(b.sent) == 0 {
		return nil
	}
	return b.sent[len(b.sent)-1]
}

func (b *bench) welcomeAt(at time.Time, epoch int64) *controlpb.MgmtMessage {
	return &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Welcome{Welcome: &controlpb.Welcome{
		MeshId: string(b.mesh.ID), MeshEpoch: epoch, ClockUnixNanos: at.UnixNano(), MgmtAddresses: []string{"m:1"},
	}}}
}

// open brings b to where the welcome was accepted.
func (b *bench) open(t *testing.T) {
	t.Helper()
	if err := b.hello(); err != nil {
		t.Fatal(err)
	}
	if err := b.receive(t.Context(), b.welcomeAt(time.Now(), 1)); err != nil {
		t.Fatal(err)
	}
}

func TestHelloSaysWhatTheNodeHas(t *testing.T) {
	b := newBench(t, mesh.RoleCore)
	b.running.config = 9
	if err := b.hello(); err != nil {
		t.Fatal(err)
	}
	h := b.last().GetHello()
	if h.GetVersion() != "1.2.3" || h.GetConfigRevision() != 9 || h.GetRelayPort() != 8444 || h.GetInstance() == "" || h.GetBoot() != 1 {
		t.Errorf("got %v", h)
	}
	if err := b.hello(); err != nil || b.last().GetHello().GetBoot() != 2 {
		t.Errorf("boot must rise with each stream: %v, %v", b.last(), err)
	}
}

func TestWelcomeIsChecked(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name    string
		welcome func(b *bench) *controlpb.MgmtMessage
		want    error
		says    string // in the error, or else in the log
	}{
		{"a proper one is accepted", func(b *bench) *controlpb.MgmtMessage { return b.welcomeAt(now, 3) }, nil, ""},
		{"another first message is not", func(*bench) *controlpb.MgmtMessage { return config(1) }, mesh.ErrInvalid, "no welcome"},
		{"another mesh is not", func(b *bench) *controlpb.MgmtMessage {
			w := b.welcomeAt(now, 3)
			w.GetWelcome().MeshId = "mesh-other"
			return w
		}, mesh.ErrDenied, "mesh-other"},
		{"a lower epoch is not", func(b *bench) *controlpb.MgmtMessage { return b.welcomeAt(now, 2) }, mesh.ErrConflict, "older than what this node has seen"},
		{"a clock a little off is told", func(b *bench) *controlpb.MgmtMessage { return b.welcomeAt(now.Add(30*time.Second), 3) }, nil, "clock differs"},
		{"a clock far off is refused with both times", func(b *bench) *controlpb.MgmtMessage { return b.welcomeAt(now.Add(-time.Hour), 3) }, mesh.ErrConflict, now.Add(-time.Hour).UTC().Format(time.RFC3339)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, mesh.RoleCore)
			if err := b.home.Revocations.Follow(3, b.mesh.Epoch(t, 3)); err != nil {
				t.Fatal(err)
			}
			if err := b.hello(); err != nil {
				t.Fatal(err)
			}
			err := b.receive(t.Context(), tt.welcome(b))
			if !errors.Is(err, tt.want) || b.welcomed != (tt.want == nil) {
				t.Fatalf("got %v, welcomed=%v", err, b.welcomed)
			}
			text := b.log.String()
			if err != nil {
				text = err.Error()
				if len(b.home.State.Addresses()) != 0 {
					t.Error("addresses of a server that was refused were kept")
				}
			}
			if !strings.Contains(text, tt.says) {
				t.Errorf("%q does not say %q", text, tt.says)
			}
		})
	}
}

func config(rev int64) *controlpb.MgmtMessage {
	return &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Config{Config: &controlpb.Config{Revision: rev}}}
}

// H-06: what cannot run is said, and what ran last stays, across a restart too.
func TestConfigThatCannotRunLeavesTheLastOne(t *testing.T) {
	b := newBench(t, mesh.RoleEntry)
	b.open(t)
	if err := b.receive(t.Context(), config(4)); err != nil {
		t.Fatal(err)
	}
	if a := b.last().GetAck(); a.GetKind() != controlpb.Ack_KIND_CONFIG || a.GetRevision() != 4 || a.GetError() != "" {
		t.Errorf("ack %v", a)
	}
	b.role.refuse = errors.New("the listener cannot bind")
	if err := b.receive(t.Context(), config(5)); err != nil {
		t.Fatal(err)
	}
	if a := b.last().GetAck(); a.GetRevision() != 5 || a.GetError() != "the listener cannot bind" {
		t.Errorf("ack %v", a)
	}
	if b.running.config != 4 || b.home.State.Config().GetRevision() != 4 {
		t.Errorf("runs %d, stored %v", b.running.config, b.home.State.Config())
	}
	b.role.refuse = nil
	if r := b.home.resume(t.Context()); r.config != 4 {
		t.Errorf("resumed %d", r.config)
	}
	if err := b.receive(t.Context(), config(4)); err != nil || len(b.role.applied) != 2 {
		t.Errorf("what runs already was applied again: %v, %v", b.role.applied, err)
	}
}

func revocations(snapshot bool, base, rev int64, recs ...mesh.SignedRevocation) *controlpb.MgmtMessage {
	r := &controlpb.Revocations{Snapshot: snapshot, Base: base, Revision: rev}
	for _, x := range recs {
		r.Records = append(r.Records, &controlpb.SignedRevocation{Payload: x.Payload, Signature: x.Signature, Signer: x.Signer})
	}
	return &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Revocations{Revocations: r}}
}

func TestRevocationsAreAcknowledgedOnceInForce(t *testing.T) {
	b := newBench(t, mesh.RoleEntry)
	b.open(t)
	core := b.mesh.Identity(mesh.RoleCore)
	good := b.mesh.Revoke(t, mesh.Revocation{Node: core.Node()})
	forged := identitytest.New(t).Revoke(t, mesh.Revocation{Node: core.Node()})
	tests := []struct {
		name    string
		message *controlpb.MgmtMessage
		ack     int64
		fails   bool
	}{
		{"a snapshot", revocations(true, 0, 10, good), 10, false},
		{"a delta that fits", revocations(false, 10, 11), 11, false},
		{"a delta that does not fit asks for a snapshot", revocations(false, 99, 100), 0, false},
		{"a forged record is refused", revocations(false, 11, 12, forged), 12, true},
	}
	for _, tt := range tests {
		if err := b.receive(t.Context(), tt.message); err != nil {
			t.Fatal(err)
		}
		a := b.last().GetAck()
		if a.GetKind() != controlpb.Ack_KIND_REVOCATIONS || a.GetRevision() != tt.ack || (a.GetError() != "") != tt.fails {
			t.Errorf("%s: ack %v", tt.name, a)
		}
	}
	if b.home.Revocations.Revision() != 11 {
		t.Errorf("revision %d", b.home.Revocations.Revision())
	}
}

func TestMessagesOfAnotherRoleEndTheStream(t *testing.T) {
	devices := &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Devices{Devices: &controlpb.Devices{}}}
	drain := &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Drain{Drain: &controlpb.Drain{}}}
	b := newBench(t, mesh.RoleEntry)
	b.open(t)
	if err := b.receive(t.Context(), devices); !errors.Is(err, mesh.ErrInvalid) || b.role.handled != 0 {
		t.Errorf("devices at an entry: %v", err)
	}
	if err := b.receive(t.Context(), drain); err != nil || b.role.handled != 1 {
		t.Errorf("drain at an entry: %v", err)
	}
	if err := b.receive(t.Context(), &controlpb.MgmtMessage{}); err != nil {
		t.Errorf("a message of a newer version must be ignored: %v", err)
	}
	if err := b.receive(t.Context(), b.welcomeAt(time.Now(), 1)); err == nil {
		t.Error("a second welcome must end the stream")
	}
}

func TestNodeMessagesByRole(t *testing.T) {
	ack := func(k controlpb.Ack_Kind) *controlpb.NodeMessage { return AckMessage(k, 1, nil) }
	tests := []struct {
		name        string
		m           *controlpb.NodeMessage
		core, entry bool
	}{
		{"a second hello", &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Hello{}}, false, false},
		{"a ping", &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Ping{}}, true, true},
		{"a goodbye", &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Goodbye{}}, true, true},
		{"an acknowledged configuration", ack(controlpb.Ack_KIND_CONFIG), true, true},
		{"an acknowledged device table", ack(controlpb.Ack_KIND_DEVICES), true, false},
		{"a probe", &controlpb.NodeMessage{Body: &controlpb.NodeMessage_ProbeReady{}}, true, false},
		{"a cell request", &controlpb.NodeMessage{Body: &controlpb.NodeMessage_CellRequest{}}, true, false},
		{"usage", &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Usage: make([]*controlpb.DeviceUsage, 1)}}}, true, false},
		{"dials", &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Dials: make([]*controlpb.DialResult, 1)}}}, false, true},
		{"what was relayed", &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Relayed: make([]*controlpb.CoreTraffic, 1)}}}, false, true},
		{"what was metered", &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Metered: make([]*controlpb.DeviceUsage, 1)}}}, true, false},
		{"names that lead nowhere", &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Misses: 1}}}, false, true},
		{"something of a newer version", &controlpb.NodeMessage{}, true, true},
	}
	for _, tt := range tests {
		if c, e := AllowedFrom(mesh.RoleCore, tt.m), AllowedFrom(mesh.RoleEntry, tt.m); c != tt.core || e != tt.entry {
			t.Errorf("%s: core %v, entry %v", tt.name, c, e)
		}
		if AllowedFrom(mesh.RoleAdmin, tt.m) || AllowedFrom(mesh.RoleMgmt, tt.m) {
			t.Errorf("%s: allowed from a role that has no phone-home", tt.name)
		}
	}
}

// H-03: a stream that died in both directions is known to be dead in time, also
// when ticks are as uneven as a machine's are.
func TestSilenceIsNoticed(t *testing.T) {
	for phase := range 20 {
		synctest.Test(t, func(t *testing.T) { noticesSilence(t, 5*time.Minute+time.Duration(phase)*time.Second) })
	}
}

// noticesSilence lets the server answer for some time and then no more.
func noticesSilence(t *testing.T, answers time.Duration) {
	b := newBench(t, mesh.RoleCore)
	b.open(t)
	answerUntil := time.Now().Add(answers)
	uneven := time.Millisecond
	for {
		uneven = -uneven
		time.Sleep(b.home.pingEvery()/3 + uneven)
		if err := b.tick(time.Now()); err != nil {
			if silent := time.Since(answerUntil); !errors.Is(err, mesh.ErrUnavailable) || silent < 15*time.Second || silent > 36*time.Second {
				t.Errorf("gave up after %v of silence: %v", silent, err)
			}
			return
		}
		if p := b.last().GetPing(); p != nil && time.Now().Before(answerUntil) {
			if err := b.receive(t.Context(), &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Pong{Pong: p}}); err != nil {
				t.Fatal(err)
			}
		}
		if time.Since(answerUntil) > 2*time.Minute {
			t.Fatal("silence was not noticed")
		}
	}
}

func TestAServerThatNeverWelcomesIsLeft(t *testing.T) {
	b := newBench(t, mesh.RoleCore)
	b.pingedAt = time.Now()
	if err := b.tick(time.Now().Add(16 * time.Second)); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestReportsThatMayNotHaveArrivedComeBack(t *testing.T) {
	b := newBench(t, mesh.RoleCore)
	b.open(t)
	b.role.reports = []*controlpb.Report{{Streams: 1}, {Streams: 2}}
	if err := b.report(); err != nil {
		t.Fatal(err)
	}
	b.pingedAt = time.Time{}
	if err := b.tick(time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := b.report(); err != nil {
		t.Fatal(err)
	}
	b.pong(99) // never sent: says nothing
	b.pong(1)  // sent after the first report and before the second
	b.end()
	if len(b.role.unsent) != 1 || b.role.unsent[0].GetStreams() != 2 {
		t.Errorf("came back: %v", b.role.unsent)
	}
}
