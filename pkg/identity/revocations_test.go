package identity_test

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// peerOf is a node as others see it.
func peerOf(n *identity.Node) identity.Peer {
	leaf := n.Leaf()
	return identity.Peer{
		Identity: n.Identity(), Leaf: leaf, Serial: leaf.SerialNumber.String(), Issued: leaf.NotBefore.Add(mesh.Backdate),
	}
}

func apply(t *testing.T, r *identity.Revocations, base, revision int64, recs ...mesh.SignedRevocation) {
	t.Helper()
	if err := r.Apply(false, base, revision, recs); err != nil {
		t.Fatal(err)
	}
}

func TestCheck(t *testing.T) {
	m := identitytest.New(t)
	peer := peerOf(m.Node(t, mesh.RoleCore))
	under := peer
	under.Issuers = []string{m.Intermediate.SerialNumber.String(), m.Root.SerialNumber.String()}
	tests := map[string]struct {
		rev     mesh.Revocation
		peer    identity.Peer
		refused bool
	}{
		"its serial":                          {mesh.Revocation{Serial: peer.Serial}, peer, true},
		"another serial":                      {mesh.Revocation{Serial: "17"}, peer, false},
		"all it was issued before now":        {mesh.Revocation{Node: peer.Node()}, peer, true},
		"all it was issued before yesterday":  {mesh.Revocation{Node: peer.Node(), IssuedBefore: time.Now().Add(-24 * time.Hour)}, peer, false},
		"another node":                        {mesh.Revocation{Node: m.Identity(mesh.RoleCore).Node()}, peer, false},
		"the same id under another role":      {mesh.Revocation{Node: "entry/" + peer.ID}, peer, false},
		"the intermediate it was issued with": {mesh.Revocation{Serial: m.Intermediate.SerialNumber.String()}, under, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := m.Revocations(t)
			apply(t, r, 0, 1, m.Revoke(t, tt.rev))
			if err := r.Check(tt.peer); (err != nil) != tt.refused || err != nil && !errors.Is(err, mesh.ErrDenied) {
				t.Fatalf("got %v, refused should be %v", err, tt.refused)
			}
		})
	}
	var none *identity.Revocations
	if err := none.Check(peer); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyRevocationRefuses(t *testing.T) {
	m, other := identitytest.New(t), identitytest.New(t)
	good := m.Revoke(t, mesh.Revocation{Serial: "5"})
	change := func(f func(*mesh.SignedRevocation)) mesh.SignedRevocation {
		s := good
		s.Payload = append([]byte(nil), good.Payload...)
		f(&s)
		return s
	}
	leaf := m.Node(t, mesh.RoleMgmt).Leaf()
	tests := map[string]mesh.SignedRevocation{
		"a changed payload":          change(func(s *mesh.SignedRevocation) { s.Payload[8] ^= 1 }),
		"another signature":          change(func(s *mesh.SignedRevocation) { s.Signature = other.Revoke(t, good.Record).Signature }),
		"no signature":               change(func(s *mesh.SignedRevocation) { s.Signature = nil }),
		"another mesh's CA":          other.Revoke(t, mesh.Revocation{Serial: "5"}),
		"a leaf as signer":           change(func(s *mesh.SignedRevocation) { s.Signer = leaf.Raw }),
		"no signer":                  change(func(s *mesh.SignedRevocation) { s.Signer = nil }),
		"neither serial nor node":    m.Revoke(t, mesh.Revocation{IssuedBefore: time.Now()}),
		"both":                       m.Revoke(t, mesh.Revocation{Serial: "5", Node: "core/x", IssuedBefore: time.Now()}),
		"a serial that is no number": m.Revoke(t, mesh.Revocation{Serial: "5x"}),
		"a reason of a megabyte":     m.Revoke(t, mesh.Revocation{Serial: "5", Reason: string(make([]byte, 1<<20))}),
		"made when the signer was not": m.Revoke(t, mesh.Revocation{
			Serial: "5", At: time.Now().Add(100 * 365 * 24 * time.Hour)}),
	}
	if _, err := identity.VerifyRevocation(m.Roots(), good); err != nil {
		t.Fatal(err)
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := identity.VerifyRevocation(m.Roots(), s); err == nil {
				t.Fatal("believed")
			}
			if err := m.Revocations(t).Apply(true, 0, 1, []mesh.SignedRevocation{good, s}); err == nil {
				t.Fatal("applied")
			}
		})
	}
	// What the decoded copy says is of no account.
	lie := change(func(s *mesh.SignedRevocation) { s.Record = mesh.Revocation{Serial: "6"} })
	if rec, err := identity.VerifyRevocation(m.Roots(), lie); err != nil || rec.Serial != "5" {
		t.Fatalf("got %v, %v", rec.Serial, err)
	}
}

func TestRevocationsSurviveRestartAndRestore(t *testing.T) {
	m := identitytest.New(t)
	path := filepath.Join(t.TempDir(), "revocations.json")
	load := func() *identity.Revocations {
		t.Helper()
		r, err := identity.OpenRevocations(path, m.Roots(), m.ID)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	peer := peerOf(m.Node(t, mesh.RoleCore))
	r := load()
	apply(t, r, 0, 7, m.Revoke(t, mesh.Revocation{Serial: peer.Serial}))
	if err := r.Follow(1, mesh.SignedEpoch{}); err != nil {
		t.Fatal(err)
	}
	apply(t, r, 0, 7)
	r = load()
	if r.Revision() != 7 || r.Epoch() != 1 || !errors.Is(r.Check(peer), mesh.ErrDenied) {
		t.Fatalf("revision %d, epoch %d after a restart", r.Revision(), r.Epoch())
	}
	if err := r.Follow(3, m.Epoch(t, 3)); err != nil {
		t.Fatal(err)
	}
	// Revisions of the epoch before mean nothing.
	r = load()
	if r.Revision() != 0 || r.Epoch() != 3 || !r.EpochProof().Equal(m.Epoch(t, 3)) && r.EpochProof().IsZero() || !errors.Is(r.Check(peer), mesh.ErrDenied) {
		t.Fatalf("revision %d, epoch %d after a restart", r.Revision(), r.Epoch())
	}
	if err := r.Follow(2, m.Epoch(t, 2)); !errors.Is(err, mesh.ErrConflict) {
		t.Fatalf("a lower epoch: %v", err)
	}
	// A server restored from a backup knows nothing of the record.
	if err := r.Apply(true, 0, 2, nil); err != nil {
		t.Fatal(err)
	}
	if r = load(); r.Revision() != 2 || !errors.Is(r.Check(peer), mesh.ErrDenied) {
		t.Fatal("a restore un-revoked")
	}
	if err := r.Apply(false, 5, 6, nil); !errors.Is(err, mesh.ErrConflict) {
		t.Fatalf("a delta on another base: %v", err)
	}
	if err := errors.Join(r.SetHanded(2), r.SetHanded(3)); err != nil {
		t.Fatal(err)
	}
	if r = load(); r.Handed() != 3 || len(r.Signed()) != 1 {
		t.Fatalf("handed over in epoch %d, %d records", r.Handed(), len(r.Signed()))
	}
	wantMode(t, path, 0o600)
}

// Whoever can write the state of management could lock nodes out with a number.
func TestAnEpochRisesByTheRootsWordAlone(t *testing.T) {
	m, foreign := identitytest.New(t), identitytest.New(t)
	pretender := identitytest.NewWithID(t, m.ID)
	none := mesh.SignedEpoch{}
	for _, tt := range []struct {
		name  string
		held  int64
		epoch int64
		proof mesh.SignedEpoch
		want  error
	}{
		{"the first, of a mesh founded long ago", 0, 1, none, nil},
		{"the first, with the root's word", 0, 1, m.Epoch(t, 1), nil},
		{"the same again, as servers of the last version send it", 4, 4, none, nil},
		{"a rise", 1, 2, m.Epoch(t, 2), nil},
		{"a rise by more than one", 1, 9, m.Epoch(t, 9), nil},
		{"a rise without a word", 1, 2, none, mesh.ErrDenied},
		{"a first that is not 1 without a word", 0, 2, none, mesh.ErrDenied},
		{"a rise with the word for less", 1, 3, m.Epoch(t, 2), mesh.ErrDenied},
		{"a rise with the word for more", 1, 2, m.Epoch(t, 3), mesh.ErrDenied},
		{"a rise by another mesh", 1, 2, foreign.Epoch(t, 2), mesh.ErrInvalid},
		{"a rise by who pretends to be the root", 1, 2, pretender.Epoch(t, 2), mesh.ErrDenied},
		{"the same with a bad word", 2, 2, pretender.Epoch(t, 2), mesh.ErrDenied},
		{"a lower one", 3, 2, m.Epoch(t, 2), mesh.ErrConflict},
		{"a lower one with the word for more", 3, 2, m.Epoch(t, 4), mesh.ErrConflict},
	} {
		r, err := identity.OpenRevocations("", m.Roots(), m.ID)
		if err != nil {
			t.Fatal(err)
		}
		if tt.held > 0 {
			if err := r.Follow(tt.held, m.Epoch(t, tt.held)); err != nil {
				t.Fatal(err)
			}
		}
		rises, err := r.CheckEpoch(tt.epoch, tt.proof)
		if !errors.Is(err, tt.want) || rises != (tt.want == nil && tt.epoch > tt.held) {
			t.Errorf("%s: rises %v, %v; want %v", tt.name, rises, err, tt.want)
		}
		after := tt.held
		if tt.want == nil {
			after = tt.epoch
		}
		if err := r.Follow(tt.epoch, tt.proof); !errors.Is(err, tt.want) || r.Epoch() != after {
			t.Errorf("%s: follow: epoch %d, %v", tt.name, r.Epoch(), err)
		}
	}
}

// A server that was taken over can sign records until its own is revoked: under
// the id of another record neither before nor after that one came.
func TestARecordIsNotTakenBackByItsID(t *testing.T) {
	m := identitytest.New(t)
	peer := peerOf(m.Node(t, mesh.RoleCore))
	genuine := m.Revoke(t, mesh.Revocation{ID: "x", Serial: peer.Serial})
	forged := m.Revoke(t, mesh.Revocation{ID: "x", Serial: "1", Until: time.Now().Add(time.Second)})
	for name, order := range map[string][]mesh.SignedRevocation{"after": {genuine, forged}, "before": {forged, genuine}} {
		r := m.Revocations(t)
		for i, rec := range order {
			apply(t, r, int64(i), int64(i+1), rec)
		}
		if err := r.Check(peer); !errors.Is(err, mesh.ErrDenied) {
			t.Errorf("another record with the same id %s it: %v", name, err)
		}
	}
}

func TestRevocationsEndWithTheCertificate(t *testing.T) {
	m := identitytest.New(t)
	r := m.Revocations(t)
	apply(t, r, 0, 1, m.Revoke(t, mesh.Revocation{Serial: "5", Until: time.Now().Add(time.Hour)}))
	r.SetNow(func() time.Time { return time.Now().Add(5 * time.Hour) })
	apply(t, r, 1, 2)
	if n := r.Len(); n != 0 {
		t.Fatalf("%d records are kept for ever", n)
	}
}

func TestRevocationsAreBounded(t *testing.T) {
	m := identitytest.New(t)
	r := m.Revocations(t)
	r.SetMax(2)
	apply(t, r, 0, 1, m.Revoke(t, mesh.Revocation{Serial: "5"}), m.Revoke(t, mesh.Revocation{Serial: "6"}))
	err := r.Apply(false, 1, 2, []mesh.SignedRevocation{m.Revoke(t, mesh.Revocation{Serial: "7"})})
	if !errors.Is(err, mesh.ErrInvalid) || r.Revision() != 1 || r.Check(identity.Peer{Serial: "5"}) == nil {
		t.Fatalf("a third record: %v, revision %d", err, r.Revision())
	}
}

// What is kept for a restore alone gives way to what refuses a peer.
func TestRecordsOfDevicesGiveWay(t *testing.T) {
	m := identitytest.New(t)
	r := m.Revocations(t)
	r.SetMax(3)
	device := func(ago time.Duration) mesh.SignedRevocation {
		return m.Revoke(t, mesh.Revocation{Node: mesh.ObjectDevice + string(mesh.NewDeviceID()), At: time.Now().Add(-ago)})
	}
	old, older, young := device(2*time.Hour), device(3*time.Hour), device(time.Hour)
	apply(t, r, 0, 1, old, older, young)
	apply(t, r, 1, 2, m.Revoke(t, mesh.Revocation{Serial: "5"}), m.Revoke(t, mesh.Revocation{Serial: "6"}))
	held := r.Signed()
	if _, ok := held[sha256.Sum256(young.Payload)]; len(held) != 3 || !ok || r.Check(identity.Peer{Serial: "6"}) == nil {
		t.Errorf("%d are held, the youngest of the devices: %v", len(held), ok)
	}
}

func TestDamagedRevocationsAreNotForgotten(t *testing.T) {
	m, other := identitytest.New(t), identitytest.New(t)
	path := filepath.Join(t.TempDir(), "revocations.json")
	write := func() {
		t.Helper()
		r, err := identity.OpenRevocations(path, m.Roots(), m.ID)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, r, r.Revision(), 1, m.Revoke(t, mesh.Revocation{Serial: "5"}))
	}
	for name, change := range map[string]func([]byte) []byte{
		"emptied":     func([]byte) []byte { return nil },
		"cut to half": func(b []byte) []byte { return b[:len(b)/2] },
		"zeroed":      func(b []byte) []byte { return make([]byte, len(b)) },
	} {
		t.Run(name, func(t *testing.T) {
			write()
			ruin(t, path, change)
			_, err := identity.OpenRevocations(path, m.Roots(), m.ID)
			if !errors.Is(err, mesh.ErrInvalid) || mesh.Hint(err) == "" {
				t.Fatalf("got %v", err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		})
	}
	write()
	if _, err := identity.OpenRevocations(path, other.Roots(), other.ID); !errors.Is(err, mesh.ErrInvalid) {
		t.Fatalf("another mesh's file: %v", err)
	}
}

func TestCrashWhileWritingRevocations(t *testing.T) {
	gone := errors.New("power cut")
	m := identitytest.New(t)
	for step := 0; ; step++ {
		path := filepath.Join(t.TempDir(), "revocations.json")
		r, err := identity.OpenRevocations(path, m.Roots(), m.ID)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, r, 0, 1, m.Revoke(t, mesh.Revocation{Serial: "5"}))
		r.FailAt(step, gone)
		err = r.Apply(false, 1, 2, []mesh.SignedRevocation{m.Revoke(t, mesh.Revocation{Serial: "6"})})
		if r.Check(identity.Peer{Serial: "6"}) == nil {
			t.Fatalf("step %d: not in force because of the disk", step)
		}
		again, openErr := identity.OpenRevocations(path, m.Roots(), m.ID)
		if openErr != nil {
			t.Fatalf("step %d: %v", step, openErr)
		}
		if again.Check(identity.Peer{Serial: "5"}) == nil {
			t.Fatalf("step %d: the record before is lost", step)
		}
		if (again.Revision() == 2) != (again.Check(identity.Peer{Serial: "6"}) != nil) {
			t.Fatalf("step %d: revision %d does not fit the records", step, again.Revision())
		}
		if err == nil {
			if again.Revision() != 2 {
				t.Fatal("not kept")
			}
			return
		}
		if !errors.Is(err, mesh.ErrUnavailable) || r.Revision() != 1 {
			t.Fatalf("step %d: %v, revision %d would be acknowledged", step, err, r.Revision())
		}
	}
}

func TestTrackCutsOpenConnections(t *testing.T) {
	m := identitytest.New(t)
	r := m.Revocations(t)
	peer, other := peerOf(m.Node(t, mesh.RoleCore)), peerOf(m.Node(t, mesh.RoleCore))
	cuts := map[string]int{}
	count := func(name string) func() { return func() { cuts[name]++ } }
	r.Track(peer, count("revoked"))
	r.Track(other, count("other"))
	release := r.Track(peer, count("ended before"))
	release()
	apply(t, r, 0, 1, m.Revoke(t, mesh.Revocation{Node: peer.Node()}))
	apply(t, r, 1, 2)
	r.Track(peer, count("revoked during its handshake"))
	want := map[string]int{"revoked": 1, "revoked during its handshake": 1}
	if len(cuts) != len(want) || cuts["revoked"] != 1 || cuts["revoked during its handshake"] != 1 {
		t.Fatalf("cut %v, want %v", cuts, want)
	}
	var told int
	cancel := r.Subscribe(func() { told++ })
	apply(t, r, 2, 3)
	cancel()
	apply(t, r, 3, 4)
	if told != 1 {
		t.Fatalf("told %d times, want once", told)
	}
}

func TestPeerInContext(t *testing.T) {
	if _, ok := identity.PeerFromContext(t.Context()); ok {
		t.Fatal("a peer out of nothing")
	}
	p := peerOf(identitytest.New(t).Node(t, mesh.RoleCore))
	if got, ok := identity.PeerFromContext(identity.WithPeer(t.Context(), p)); !ok || got.Identity != p.Identity {
		t.Fatal("another peer came back")
	}
}
