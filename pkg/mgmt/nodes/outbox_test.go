package nodes

import (
	"errors"
	"fmt"
	"testing"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func devices(names ...string) map[string]*controlpb.Device {
	out := map[string]*controlpb.Device{}
	for _, n := range names {
		out[n] = &controlpb.Device{Id: n}
	}
	return out
}

func revocations(rev int64, ids ...string) *revset {
	r := &revset{rev: rev, records: map[string]mesh.SignedRevocation{}}
	for _, id := range ids {
		r.records[id] = mesh.SignedRevocation{Payload: []byte(id)}
	}
	return r
}

// drain returns everything the outbox sends until it is content, in short.
func drain(t *testing.T, o *outbox, w want) []string {
	t.Helper()
	var out []string
	for range 100 {
		m := o.next(w)
		if m == nil {
			return out
		}
		out = append(out, short(m))
	}
	t.Fatalf("the outbox does not come to rest: %v", out)
	return nil
}

func short(m *controlpb.MgmtMessage) string {
	kind := func(snapshot bool, base int64) string {
		if snapshot {
			return "all"
		}
		return fmt.Sprintf("from %d", base)
	}
	switch b := m.GetBody().(type) {
	case *controlpb.MgmtMessage_Config:
		return fmt.Sprintf("config %d", b.Config.GetRevision())
	case *controlpb.MgmtMessage_Revocations:
		r := b.Revocations
		return fmt.Sprintf("revocations %d %s +%d", r.GetRevision(), kind(r.GetSnapshot(), r.GetBase()), len(r.GetRecords()))
	case *controlpb.MgmtMessage_Devices:
		d := b.Devices
		return fmt.Sprintf("devices %d %s +%d -%d more %v", d.GetRevision(), kind(d.GetSnapshot(), d.GetBase()), len(d.GetUpserts()), len(d.GetRemoves()), d.GetMore())
	case *controlpb.MgmtMessage_Pong:
		return "pong"
	}
	return "other"
}

func TestOutboxSendsWhatIsMissing(t *testing.T) {
	config := &controlpb.Config{Revision: 7}
	tests := map[string]struct {
		hello *controlpb.Hello
		want  want
		sends []string
	}{
		"a new node gets everything, revocations first": {
			&controlpb.Hello{},
			want{config: config, revs: revocations(5, "a"), table: &table{rev: 9, devices: devices("d")}},
			[]string{"revocations 5 all +1", "config 7", "devices 9 all +1 -0 more false"},
		},
		"a node that has it all gets nothing": {
			&controlpb.Hello{MeshEpoch: 1, ConfigRevision: 7, RevocationsRevision: 5, DevicesRevision: 9},
			want{config: config, revs: revocations(5, "a"), table: &table{rev: 9, devices: devices("d")}},
			nil,
		},
		"an older table is replaced, since its content is not known": {
			&controlpb.Hello{MeshEpoch: 1, ConfigRevision: 7, RevocationsRevision: 5, DevicesRevision: 8},
			want{config: config, revs: revocations(5, "a"), table: &table{rev: 9, devices: devices("d")}},
			[]string{"devices 9 all +1 -0 more false"},
		},
		"revocations newer than this server's are left alone": {
			&controlpb.Hello{MeshEpoch: 1, ConfigRevision: 7, RevocationsRevision: 6},
			want{config: config, revs: revocations(5, "a")},
			nil,
		},
		"a node of another epoch gets everything whatever it has": {
			&controlpb.Hello{MeshEpoch: 2, ConfigRevision: 7, RevocationsRevision: 5, DevicesRevision: 9},
			want{config: config, revs: revocations(5, "a"), table: &table{rev: 9, devices: devices()}},
			[]string{"revocations 5 all +1", "config 7", "devices 9 all +0 -0 more false"},
		},
		"nothing is known yet": {&controlpb.Hello{}, want{}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := newOutbox(tt.hello, 1)
			if got := drain(t, &o, tt.want); fmt.Sprint(got) != fmt.Sprint(tt.sends) {
				t.Errorf("sends %q, want %q", got, tt.sends)
			}
		})
	}
}

func TestOutboxSendsDifferences(t *testing.T) {
	o := newOutbox(&controlpb.Hello{}, 1)
	first := (*table)(nil).next(9, 9, devices("a", "b"))
	drain(t, &o, want{revs: revocations(5, "x"), table: first})

	second := first.next(12, 12, devices("b", "c"))
	third := second.next(14, 13, devices("b", "c"))
	got := drain(t, &o, want{revs: revocations(6, "x", "y"), table: second})
	got = append(got, drain(t, &o, want{revs: revocations(6, "x", "y"), table: third})...)
	wanted := []string{"revocations 6 from 5 +1", "devices 12 from 9 +1 -1 more false", "devices 14 from 12 +0 -0 more false"}
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Errorf("sends %q, want %q", got, wanted)
	}
	if again := third.next(20, 13, devices("b", "c")); again != third {
		t.Error("a table from which nothing differs has a new revision")
	}
}

// An acknowledgement that was lost with its stream is not waited for for ever.
func TestOutboxAdoptsWhatTheNodeHas(t *testing.T) {
	first := (*table)(nil).next(9, 9, devices("a"))
	w := want{revs: revocations(5, "x"), table: first}
	o := newOutbox(&controlpb.Hello{MeshEpoch: 1, RevocationsRevision: 5, DevicesRevision: 9}, 1)
	o.adopt(w)
	if o.acked.devices != 9 {
		t.Errorf("acknowledged %+v, want the table", o.acked)
	}
	w = want{revs: revocations(6, "x", "y"), table: first.next(12, 12, devices("a", "b"))}
	wanted := []string{"revocations 6 from 5 +1", "devices 12 from 9 +1 -0 more false"}
	if got := drain(t, &o, w); fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Errorf("then sends %q, want %q", got, wanted)
	}
}

// Many changes while a node does not read become one difference.
func TestOutboxCoalesces(t *testing.T) {
	o := newOutbox(&controlpb.Hello{}, 1)
	last := (*table)(nil).next(1, 1, devices("a"))
	drain(t, &o, want{table: last})
	for i := range int64(50) {
		last = last.next(i+2, i+2, devices("a", fmt.Sprint("d", i)))
	}
	if got := drain(t, &o, want{table: last}); len(got) != 1 || got[0] != "devices 51 from 1 +1 -0 more false" {
		t.Errorf("sends %q, want one difference", got)
	}
}

func TestOutboxRevocationsOvertakeAnything(t *testing.T) {
	o := newOutbox(&controlpb.Hello{}, 1)
	big := &table{rev: 9, devices: map[string]*controlpb.Device{}}
	for i := range 2*partSize + 1 {
		big.devices[fmt.Sprint(i)] = &controlpb.Device{Id: fmt.Sprint(i)}
	}
	got := []string{short(o.next(want{table: big})), short(o.next(want{table: big, revs: revocations(3, "x")}))}
	got = append(got, drain(t, &o, want{table: big, revs: revocations(3, "x")})...)
	wanted := []string{"devices 9 all +1000 -0 more true", "revocations 3 all +1", "devices 9 all +1000 -0 more true", "devices 9 all +1 -0 more false"}
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Errorf("sends %q, want %q", got, wanted)
	}
}

// A node that got only part of a long list must not believe it has it all.
func TestRevocationsInParts(t *testing.T) {
	r := &revset{rev: 70_000, records: map[string]mesh.SignedRevocation{}}
	for i := range 2*revPart + 5 {
		r.records[fmt.Sprint(i)] = mesh.SignedRevocation{}
	}
	o := newOutbox(&controlpb.Hello{}, 1)
	got := drain(t, &o, want{revs: r})
	wanted := []string{"revocations 1 all +1000", "revocations 2 from 1 +1000", "revocations 70000 from 2 +5"}
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Errorf("sends %q, want %q", got, wanted)
	}
	half := newOutbox(&controlpb.Hello{MeshEpoch: 1, RevocationsRevision: 2}, 1)
	if got := drain(t, &half, want{revs: r}); len(got) != 3 {
		t.Errorf("a node with a part is sent %q, want all", got)
	}
}

func TestAcknowledgements(t *testing.T) {
	config, revs, dev := controlpb.Ack_KIND_CONFIG, controlpb.Ack_KIND_REVOCATIONS, controlpb.Ack_KIND_DEVICES
	w := want{config: &controlpb.Config{Revision: 7}, revs: revocations(5, "a"), table: &table{rev: 9, devices: devices("d")}}
	tests := map[string]struct {
		ack     *controlpb.Ack
		acked   revisions
		failure string
		sends   []string
		invalid bool
	}{
		"what runs":                        {&controlpb.Ack{Kind: config, Revision: 7}, revisions{config: 7}, "", nil, false},
		"a table":                          {&controlpb.Ack{Kind: dev, Revision: 9}, revisions{devices: 9}, "", nil, false},
		"what does not run is not resent":  {&controlpb.Ack{Kind: config, Revision: 7, Error: "cannot bind"}, revisions{}, "config: cannot bind", nil, false},
		"zero asks for revocations anew":   {&controlpb.Ack{Kind: revs}, revisions{}, "", []string{"revocations 5 all +1"}, false},
		"zero asks for the table anew":     {&controlpb.Ack{Kind: dev}, revisions{}, "", []string{"devices 9 all +1 -0 more false"}, false},
		"zero asks for configuration anew": {&controlpb.Ack{Kind: config}, revisions{}, "", []string{"config 7"}, false},
		"what was never sent":              {&controlpb.Ack{Kind: dev, Revision: 10}, revisions{}, "", nil, true},
		"less than nothing":                {&controlpb.Ack{Kind: dev, Revision: -1}, revisions{}, "", nil, true},
		"of no kind":                       {&controlpb.Ack{Revision: 7}, revisions{}, "", nil, true},
		"of an unknown kind":               {&controlpb.Ack{Kind: 77, Revision: 7}, revisions{}, "", nil, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := newOutbox(&controlpb.Hello{}, 1)
			drain(t, &o, w)
			_, err := o.ack(tt.ack)
			if errors.Is(err, mesh.ErrInvalid) != tt.invalid {
				t.Fatalf("ack = %v, want invalid %v", err, tt.invalid)
			}
			if o.acked != tt.acked || o.failure() != tt.failure {
				t.Errorf("acked %+v failure %q, want %+v %q", o.acked, o.failure(), tt.acked, tt.failure)
			}
			if got := drain(t, &o, w); fmt.Sprint(got) != fmt.Sprint(tt.sends) {
				t.Errorf("then sends %q, want %q", got, tt.sends)
			}
		})
	}
}

func TestOutboxIsBounded(t *testing.T) {
	o := newOutbox(&controlpb.Hello{}, 1)
	for range maxAnswers {
		if err := o.answer(&controlpb.MgmtMessage{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.answer(&controlpb.MgmtMessage{}); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("answer beyond the bound = %v, want ErrUnavailable", err)
	}
}

// What a node acknowledges over and over changes nothing.
func TestAcknowledgementsThatChangeNothing(t *testing.T) {
	se := &session{wake: make(chan struct{}, 1), out: outbox{config: 7, revRev: 7}}
	const config = controlpb.Ack_KIND_CONFIG
	for i, tt := range []struct {
		ack     *controlpb.Ack
		changed bool
	}{
		{&controlpb.Ack{Kind: config, Revision: 6}, true},
		{&controlpb.Ack{Kind: config, Revision: 6}, false},
		{&controlpb.Ack{Kind: config, Revision: 7}, true},
		{&controlpb.Ack{Kind: controlpb.Ack_KIND_REVOCATIONS, Revision: 7}, true},
		{&controlpb.Ack{Kind: controlpb.Ack_KIND_REVOCATIONS, Revision: 7}, false},
		{&controlpb.Ack{Kind: config, Revision: 7, Error: "no"}, true},
		{&controlpb.Ack{Kind: config, Revision: 7, Error: "no"}, false},
		{&controlpb.Ack{Kind: config, Revision: 7}, true},
	} {
		if _, changed, err := se.ack(tt.ack); changed != tt.changed || err != nil {
			t.Errorf("acknowledgement %d: changed %v, %v; want %v", i, changed, err, tt.changed)
		}
	}
}
