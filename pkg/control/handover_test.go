package control

import (
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// followingRole also keeps revisions of its own.
type followingRole struct {
	fakeRole
	epochs int
	fail   error
}

func (r *followingRole) NewEpoch() error {
	r.epochs++
	return r.fail
}

func (b *bench) restoredAt(t *testing.T, epoch int64, proven bool) *controlpb.MgmtMessage {
	m := b.welcomeAt(time.Now(), epoch)
	m.GetWelcome().HandOver = true
	if proven {
		m.GetWelcome().EpochProof = SignedEpochMessage(b.mesh.Epoch(t, epoch))
	}
	return m
}

func TestANewEpochIsFollowedByTheRootsWordAlone(t *testing.T) {
	b := newBench(t, mesh.RoleCore)
	role := &followingRole{}
	b.home.Role = role
	b.open(t)
	if err := b.receive(t.Context(), config(7)); err != nil {
		t.Fatal(err)
	}
	again := func() *controlpb.Hello {
		b.session = &session{home: b.home, running: b.running, send: b.send, opened: b.opened}
		if err := b.hello(); err != nil {
			t.Fatal(err)
		}
		return b.last().GetHello()
	}
	seen := role.epochs
	if h := again(); h.GetConfigRevision() != 7 || h.GetEpochProof() != nil {
		t.Fatalf("hello %v", h)
	}
	if err := b.receive(t.Context(), b.restoredAt(t, 2, false)); !errors.Is(err, mesh.ErrDenied) || b.welcomed {
		t.Errorf("a rise without a word: %v", err)
	}
	if h := again(); h.GetMeshEpoch() != 1 || h.GetConfigRevision() != 7 || role.epochs != seen {
		t.Fatalf("what was refused has left a trace: %v", h)
	}
	role.fail = mesh.ErrUnavailable
	if err := b.receive(t.Context(), b.restoredAt(t, 2, true)); !errors.Is(err, mesh.ErrUnavailable) || b.home.Revocations.Epoch() != 1 {
		t.Errorf("what cannot be forgotten is not followed: %v, epoch %d", err, b.home.Revocations.Epoch())
	}
	role.fail = nil
	again()
	if err := b.receive(t.Context(), b.restoredAt(t, 2, true)); err != nil {
		t.Fatal(err)
	}
	h := again()
	if h.GetMeshEpoch() != 2 || h.GetConfigRevision() != 0 || h.GetHandedEpoch() != 0 || !SignedEpochOf(h.GetEpochProof()).Equal(b.home.Revocations.EpochProof()) {
		t.Errorf("hello %v", h)
	}
	if c := b.home.State.Config(); c.GetRevision() != 0 || c == nil {
		t.Errorf("stored configuration %v", c)
	}
	if role.epochs != seen+2 {
		t.Errorf("the role heard of %d epochs", role.epochs-seen)
	}
}

func TestRevocationsAreHandedOver(t *testing.T) {
	b := newBench(t, mesh.RoleEntry)
	b.open(t)
	const number = 1200
	var recs []mesh.SignedRevocation
	for range number {
		recs = append(recs, b.mesh.Revoke(t, mesh.Revocation{ID: string(mesh.NewTokenID()), Serial: "5"}))
	}
	if err := b.home.Revocations.Apply(true, 0, 9, recs); err != nil {
		t.Fatal(err)
	}
	b.session = &session{home: b.home, running: b.running, send: b.send, opened: b.opened}
	if err := b.hello(); err != nil {
		t.Fatal(err)
	}
	b.sent = nil
	if err := b.receive(t.Context(), b.restoredAt(t, 2, true)); err != nil {
		t.Fatal(err)
	}
	m := b.last().GetHandOver()
	if len(m.GetHeld()) != number || m.GetMore() || len(m.GetRecords()) != 0 || !AllowedFrom(mesh.RoleEntry, b.last()) {
		t.Fatalf("offered %d of %d", len(m.GetHeld()), number)
	}
	b.sent = nil
	ask := append(slices.Clone(m.GetHeld()), make([]byte, sha256.Size)) // one that it does not have
	if err := b.receive(t.Context(), &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_HandBack{HandBack: &controlpb.HandBack{Lacking: ask}}}); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for i, m := range b.sent {
		h := m.GetHandOver()
		if h.GetMore() != (i < len(b.sent)-1) {
			t.Errorf("part %d of %d: more is %v", i+1, len(b.sent), h.GetMore())
		}
		for _, r := range h.GetRecords() {
			got[string(r.GetPayload())] = true
		}
	}
	want := map[string]bool{}
	for _, r := range recs {
		want[string(r.Payload)] = true
	}
	if !maps.Equal(got, want) || len(b.sent) < 2 {
		t.Errorf("%d records in %d parts, want %d in some", len(got), len(b.sent), len(want))
	}
	if err := b.receive(t.Context(), &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_HandedOver{HandedOver: &controlpb.HandedOver{Epoch: 2}}}); err != nil {
		t.Fatal(err)
	}
	if b.home.Revocations.Handed() != 2 {
		t.Error("not remembered")
	}
	bad := &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_HandBack{HandBack: &controlpb.HandBack{Lacking: [][]byte{{1}}}}}
	if err := b.receive(t.Context(), bad); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("a sum of one byte: %v", err)
	}
}
