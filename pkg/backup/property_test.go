package backup_test

import (
	"bytes"
	"maps"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/meshctl/meshctl/pkg/backup"
)

// TestAnyStateComesBack: whatever the objects hold, members of later versions
// among it, drafting and reading gives the same; and a history of drafts ends
// where a draft of everything would.
func TestAnyStateComesBack(t *testing.T) {
	for seed := range uint64(4) {
		g := newGenerator(seed)
		w := newWorld(t)
		tree := make(backup.Files)
		w.state.Objects = g.objects(10 + g.IntN(60))
		for round := range 6 {
			w.state.Revision++
			w.now = w.now.Add(7 * time.Hour)
			w.state.Time = w.now
			w.did(w.now, "object.change", "device/device-x")
			w.state.Plaintext = round >= 4
			w.draft(tree)
			out := w.read(tree)
			sameState(t, w.state, out)
			sameAudit(t, w.audit, out.Audit)
			whole := make(backup.Files)
			w.draft(whole)
			sameFiles(t, tree, whole, w.alice)
			w.state.Objects = g.change(w.state.Objects)
		}
		w.state.Objects = nil
		w.draft(tree)
		sameState(t, w.state, w.read(tree))
	}
}

func sameAudit(t *testing.T, want, got []backup.Object) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d audit records, want %d", len(got), len(want))
	}
	for i := range want {
		if want[i].ID != got[i].ID || !backup.Equal(want[i].JSON, got[i].JSON) {
			t.Fatalf("record %s: got %s, want %s", want[i].ID, got[i].JSON, want[i].JSON)
		}
	}
}

// sameFiles compares trees; ciphertexts by what is in them. The audit log is cut
// into segments as it came.
func sameFiles(t *testing.T, a, b backup.Files, id *age.X25519Identity) {
	t.Helper()
	skip := func(f backup.Files) backup.Files {
		out := maps.Clone(f)
		maps.DeleteFunc(out, func(path string, _ []byte) bool {
			return path == "manifest.yaml" || path == "manifest.sig" || bytes.HasPrefix([]byte(path), []byte("audit/")) ||
				bytes.HasPrefix([]byte(path), []byte("index/"))
		})
		return out
	}
	x, y := skip(a), skip(b)
	for path := range x {
		if _, ok := y[path]; !ok {
			t.Fatalf("%s is there in the history alone", path)
		}
	}
	for path := range y {
		if _, ok := x[path]; !ok {
			t.Fatalf("%s is missing in the history", path)
		}
	}
	for path := range x {
		if bytes.HasSuffix([]byte(path), []byte(".age")) {
			if !bytes.Equal(decrypt(t, x[path], id), decrypt(t, y[path], id)) {
				t.Fatalf("%s holds something else", path)
			}
		} else if !bytes.Equal(x[path], y[path]) {
			t.Fatalf("%s differs", path)
		}
	}
}

// TestWithoutRecipientsNothingPrivateIsWritten, and what there is says so.
func TestWithoutRecipientsNothingPrivateIsWritten(t *testing.T) {
	g := newGenerator(1)
	w := newWorld(t)
	w.state.Objects = append(g.objects(30), object("devices", "device-a", `{"id":"device-a","name":"x"}`), object("certs", "17", `{"serial":"17"}`))
	with := make(backup.Files)
	w.did(w.now, "device.create", "device/device-a")
	w.draft(with)

	w.state.Recipients = nil
	tree := maps.Clone(with)
	sum, _ := w.draft(tree)
	for path := range tree {
		if bytes.HasSuffix([]byte(path), []byte(".age")) && !bytes.HasPrefix([]byte(path), []byte("audit/")) {
			t.Errorf("%s is left", path)
		}
	}
	out, err := backup.Read(t.Context(), tree, nil, w.opts())
	if err != nil {
		t.Fatal(err)
	}
	got := byName(out.Objects)
	if out.Secrets || !got["devices/device-a"].Partial || got["certs/17"].Partial || len(out.Keys.Data) != 0 {
		t.Errorf("got secrets %v, %+v, %+v", out.Secrets, got["devices/device-a"], got["certs/17"])
	}
	if string(got["devices/device-a"].JSON) != `{"id":"device-a"}` {
		t.Errorf("got %s", got["devices/device-a"].JSON)
	}
	// Records are named although they are not kept, and kept once they can be.
	w.did(w.now.Add(time.Minute), "device.suspend", "device/device-a")
	if sum, _ = w.draft(tree); len(sum.Acts) != 1 || sum.Acts[0].Action != "device.suspend" {
		t.Errorf("acts %+v", sum.Acts)
	}
	w.state.Recipients = []backup.Recipient{{Name: "alice", Key: w.alice.Recipient().String()}}
	if sum, _ = w.draft(tree); len(sum.Acts) != 0 {
		t.Errorf("acts %+v, named before", sum.Acts)
	}
	out = w.read(tree)
	sameState(t, w.state, out)
	sameAudit(t, w.audit, out.Audit)
}
