package mgmt

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// A store that takes no writes refuses changes and says what to do; the server
// goes on, resumes, and lifts the refusal once there is room again.
func TestAFullStoreRefusesChangesAndRecovers(t *testing.T) {
	t.Parallel()
	conf := testConfig(filepath.Join(t.TempDir(), "data"))
	r, err := start(conf, new(logBuffer), givePassphrase)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pb.NewMaintenanceClient(r.store.Client().ActiveConnection()).Alarm(t.Context(),
		&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if r, err = start(conf, new(logBuffer), givePassphrase); err != nil {
		t.Fatalf("resume: %v", err)
	}
	_, err = admin.MemberAdd.Call(t.Context(), r.local(t), admin.MemberAddRequest{Name: "Ada"})
	if mesh.Kind(err) != mesh.ErrUnavailable || !strings.Contains(mesh.Hint(err), "mgmt status") {
		t.Errorf("a change: %v, hint %q", err, mesh.Hint(err))
	}
	call(t, admin.MemberList, r.local(t), admin.Page{})
	s := call(t, admin.ServerStatusGet, r.local(t), admin.None{})
	if !slices.Contains(s.Etcd.Alarms, noSpace) || len(s.Problems) == 0 {
		t.Errorf("status: %+v", s)
	}
	k := &keeper{store: r.store, etcd: r.etcd, own: r.certificates, log: r.log, now: time.Now}
	if err := k.quota(t.Context()); err != nil {
		t.Fatal(err)
	}
	call(t, admin.MemberAdd, r.local(t), admin.MemberAddRequest{Name: "Ada"})
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// Who does not renew is told of once, this server's own ends too; a node that is
// gone is nobody's trouble.
func TestEndsThatComeNearAreToldOnce(t *testing.T) {
	w := getWorld(t)
	present, gone := w.node(t, mesh.RoleEntry), w.node(t, mesh.RoleEntry)
	call(t, admin.EntryRevoke, w.local(t), admin.RevokeRequest{Ref: gone.Identity().ID})
	ends, own := present.Leaf().NotAfter, unique("issuer")
	k := &keeper{
		store: w.store, etcd: w.etcd, log: w.log,
		own: func() []admin.CertEnd { return []admin.CertEnd{{What: own, Ends: ends}} },
		now: func() time.Time { return present.Leaf().NotAfter.Add(-time.Hour) },
	}
	for range 2 {
		if err := errors.Join(k.ownEnds(t.Context()), k.nodeEnds(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	told := map[string]int{}
	for _, e := range call(t, admin.EventList, w.local(t), admin.EventListRequest{Type: mesh.EventCertExpiring}).Items {
		told[e.Object]++
	}
	if told[present.Identity().Node()] != 1 || told[gone.Identity().Node()] != 0 || told["server/"+own] != 1 {
		t.Errorf("told of %v; want once of %s and of the intermediate, not of %s", told, present.Identity().Node(), gone.Identity().Node())
	}
}

func TestRecordsOfCertificatesAreKeptForAWhile(t *testing.T) {
	w := getWorld(t)
	serial := w.node(t, mesh.RoleEntry).Leaf().SerialNumber.String()
	now := time.Now().Add(180 * 24 * time.Hour) // twice the life of a certificate
	k := &keeper{store: w.store, etcd: w.etcd, own: w.certificates, log: w.log, now: func() time.Time { return now }}
	has := func() bool {
		_, err := w.store.GetCert(t.Context(), serial)
		return err == nil
	}
	if err := k.trimCerts(t.Context(), now.Add(-time.Hour)); err != nil || !has() {
		t.Errorf("%v; the record of a certificate that ended 90 days ago is there: %v", err, has())
	}
	if err := k.trimCerts(t.Context(), now.Add(time.Hour)); err != nil || has() {
		t.Errorf("%v; it is there after more than that: %v", err, has())
	}
}

func TestWhenACertificateIsLate(t *testing.T) {
	now := time.Now()
	rec := func(life, left time.Duration) mesh.CertRecord {
		return mesh.CertRecord{Issued: now.Add(left - life), NotAfter: now.Add(left)}
	}
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		rec  mesh.CertRecord
		want bool
	}{
		"fresh":                         {rec(90*day, 80*day), false},
		"due for renewal":               {rec(90*day, 29*day), false},
		"a week before the end":         {rec(90*day, 6*day), true},
		"a day's, with half of it left": {rec(day, 12*time.Hour), false},
		"a day's, with an hour left":    {rec(day, time.Hour), true},
		"over":                          {rec(day, -time.Hour), false},
	} {
		if got := late(c.rec, now); got != c.want {
			t.Errorf("%s: late %v, want %v", name, got, c.want)
		}
	}
}
