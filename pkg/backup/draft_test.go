package backup_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func member(i int, name string) backup.Object {
	id := fmt.Sprintf("member-%016d", i)
	return object("members", id, `{"schema":1,"minReader":1,"id":%q,"name":%q,"state":"active","created":"2026-11-30T08:00:00Z"}`, id, name)
}

func device(i int, name string) backup.Object {
	id := fmt.Sprintf("device-%016d", i)
	return object("devices", id, `{"schema":1,"minReader":1,"id":%q,"uuid":"00000000-0000-4000-8000-%012d","member":"member-%016d","name":%q,"state":"active",`+
		`"labels":[{"label":"l%015d"}],"hiddenLabel":"h%015d","secret":"sealed:v1:%064d","verifiers":{"http":"%043d"},`+
		`"limits":{"connections":8,"traffic":%d},"assigned":{"cell":"cell-aaaaaaaaaaaaaaaa"},"created":"2026-11-30T08:00:00Z"}`,
		id, i, i%1000, name, i, i, i, i, i)
}

func devices(n int) []backup.Object {
	out := make([]backup.Object, n)
	for i := range out {
		out[i] = device(i, fmt.Sprintf("phone %d", i))
	}
	return out
}

func written(files []backup.File) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Path)
	}
	return out
}

func TestAnUnchangedStateIsNoCommit(t *testing.T) {
	w, tree := newWorld(t), make(backup.Files)
	w.state.Objects = append(devices(50), member(1, "Alicia"))
	w.did(w.now, "member.create", "member/member-1")
	if sum, _ := w.draft(tree); !sum.Full || sum.Reason == "" {
		t.Errorf("got %+v", sum)
	}
	// Another leader, later, with the objects in another order: still the same.
	w.state.Leader, w.state.Revision, w.state.Time = 9, 900, w.now.Add(time.Hour)
	slices.Reverse(w.state.Objects)
	if sum, files := w.draft(tree); sum.Changed || len(files) > 0 || sum.Full {
		t.Errorf("got %v, %+v", written(files), sum)
	}
}

func TestOneChangeOfManyIsFewFiles(t *testing.T) {
	w, tree := newWorld(t), make(backup.Files)
	w.state.Objects = devices(500)
	for i := range 9500 { // without a private part, so that the test is quick
		w.state.Objects = append(w.state.Objects, object("certs", fmt.Sprint(i), `{"serial":"%d","node":"core/core-aaaaaaaaaaaaaaaa"}`, i))
	}
	w.draft(tree)
	w.state.Objects[77] = device(77, "another name")
	w.did(w.now, "device.rename", "device/"+w.state.Objects[77].ID)
	sum, files := w.draft(tree)
	path := backup.PathOf("devices", w.state.Objects[77].ID)
	shard := strings.Split(path, "/")[1]
	want := []string{
		"audit/2026-11-30/" + w.audit[0].ID + ".age", path + ".age", "index/audit.yaml", "index/devices.yaml",
		"index/devices/" + shard + ".yaml", "manifest.sig", "manifest.yaml",
	}
	got := written(files)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if c := sum.Objects["devices"]; c != (backup.Count{Changed: 1}) || sum.Bytes > 30<<10 {
		t.Errorf("got %+v, %d bytes", c, sum.Bytes)
	}
	if got, want := sum.Message(), "device.rename device/"+w.state.Objects[77].ID+" by admin:admin-abcdefghijklmnop\n"; !strings.Contains(got, want) {
		t.Errorf("message %q", got)
	}
	sameState(t, w.state, w.read(tree))
}

func TestOtherRecipientsGetEverythingAnew(t *testing.T) {
	w, tree := newWorld(t), make(backup.Files)
	w.state.Objects = append(devices(30), object("certs", "17", `{"serial":"17"}`))
	w.did(w.now, "device.create", "device/x")
	w.draft(tree)
	before := maps.Clone(tree)
	bob := newAge(t)
	w.state.Recipients = append(w.state.Recipients, backup.Recipient{Name: "bob", Key: bob.Recipient().String()})
	w.draft(tree)
	for path, data := range tree {
		age := strings.HasSuffix(path, ".age") && !strings.HasPrefix(path, "audit/")
		if age && string(before[path]) == string(data) {
			t.Errorf("%s is as it was", path)
		}
		if age {
			decrypt(t, data, bob)
			decrypt(t, data, w.own)
		}
		if strings.HasSuffix(path, ".yaml") && !strings.HasPrefix(path, "index/") && path != "manifest.yaml" && string(before[path]) != string(data) {
			t.Errorf("%s was written anew", path)
		}
	}
	// The newcomer reads all but the audit records of before.
	w.did(w.now.Add(time.Minute), "device.create", "device/y")
	w.draft(tree)
	out, err := backup.Read(t.Context(), tree, []backup.Identity{bob}, w.opts())
	if err != nil {
		t.Fatal(err)
	}
	sameState(t, w.state, out)
	if len(out.Audit) != 1 || out.AuditUnread != 1 {
		t.Errorf("%d records, %d segments unread", len(out.Audit), out.AuditUnread)
	}
	// Who goes is not among those of the next ciphertexts.
	w.state.Recipients = w.state.Recipients[:1]
	w.draft(tree)
	if _, ok := tree["recipients/bob.txt"]; ok {
		t.Error("recipients/bob.txt is left")
	}
	if _, err := backup.Read(t.Context(), tree, []backup.Identity{bob}, w.opts()); !errors.Is(err, mesh.ErrDenied) {
		t.Errorf("got %v", err)
	}
}

func TestAnotherDataKeyWritesEverythingAnew(t *testing.T) {
	w, tree := newWorld(t), make(backup.Files)
	w.state.Objects = devices(5)
	w.draft(tree)
	w.state.Keys.Data = [][32]byte{{9}, {1, 2, 3}}
	_, files := w.draft(tree)
	n := 0
	for _, f := range files {
		if strings.HasSuffix(f.Path, ".age") {
			n++
		}
	}
	if n != 6 { // the devices, and keys.age
		t.Errorf("%d ciphertexts written: %v", n, written(files))
	}
	sameState(t, w.state, w.read(tree))
}

func TestWhatABaseMustBe(t *testing.T) {
	w, tree := newWorld(t), make(backup.Files)
	w.state.Objects = devices(30)
	w.draft(tree)
	other := newWorld(t)
	foreign := make(backup.Files)
	other.draft(foreign)
	mixed := maps.Clone(tree)
	for path := range mixed {
		if strings.HasPrefix(path, "index/devices/") {
			delete(mixed, path)
			break
		}
	}
	unsigned := maps.Clone(tree)
	delete(unsigned, "manifest.sig")
	forged := maps.Clone(tree)
	for path, data := range forged { // an index that would keep other ciphertexts
		if strings.HasPrefix(path, "index/devices/") {
			forged[path] = append([]byte("device-zzz: "+strings.Repeat("0", 64)+"\n"), data...)
		}
	}
	for name, base := range map[string]backup.Files{
		"another mesh signed it":      foreign,
		"nobody signed it":            unsigned,
		"a part of the index is gone": mixed,
		"its index is forged":         forged,
		"it is empty":                 {},
	} {
		whole := make(backup.Files)
		sum, err := w.r.Draft(t.Context(), base, w.state, nil, func(f backup.File) error { whole.Apply(f); return nil })
		if err != nil || !sum.Full || !sum.Changed || sum.Reason == "" {
			t.Errorf("%s: %+v, %v", name, sum, err)
			continue
		}
		sameState(t, w.state, w.read(whole))
	}
	if sum, err := w.r.Draft(t.Context(), nil, w.state, nil, func(backup.File) error { return nil }); err != nil || !sum.Full {
		t.Errorf("no base: %+v, %v", sum, err)
	}
}

func TestANewerFormatIsNotWrittenOver(t *testing.T) {
	w, tree := newWorld(t), make(backup.Files)
	w.draft(tree)
	w.resign(tree, func(text string) string { return strings.Replace(text, "minReader: 1", "minReader: 2", 1) })
	_, err := w.r.Draft(t.Context(), tree, w.state, nil, func(backup.File) error { t.Error("drafted"); return nil })
	tooNew, ok := errors.AsType[*backup.TooNewError](err)
	if !ok || tooNew.Need != 2 || mesh.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
}

func TestWhatADraftRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		text   string
	}{
		"an id that climbs":            {func(w *world) { w.state.Objects = []backup.Object{object("devices", "../x", "{}")} }, "../x"},
		"an id that hides":             {func(w *world) { w.state.Objects = []backup.Object{object("devices", ".git", "{}")} }, ".git"},
		"an id with a slash":           {func(w *world) { w.state.Objects = []backup.Object{object("devices", "a/b", "{}")} }, "a/b"},
		"an empty id":                  {func(w *world) { w.state.Objects = []backup.Object{object("devices", "", "{}")} }, "devices/"},
		"a folder of the format's own": {func(w *world) { w.state.Objects = []backup.Object{object("index", "a", "{}")} }, "index/a"},
		"an object twice":              {func(w *world) { w.state.Objects = append(devices(1), devices(1)...) }, "twice"},
		"what is no object":            {func(w *world) { w.state.Objects = []backup.Object{object("devices", "a", "[]")} }, "devices/a"},
		"two JSON values":              {func(w *world) { w.state.Objects = []backup.Object{object("devices", "a", "{}{}")} }, "devices/a"},
		"too deep an object": {func(w *world) {
			w.state.Objects = []backup.Object{object("devices", "a", `{"a":%s}`, strings.Repeat("[", 600)+strings.Repeat("]", 600))}
		}, "devices/a"},
		"no data key":                     {func(w *world) { w.state.Keys.Data = nil }, "data key"},
		"a recipient that is none":        {func(w *world) { w.state.Recipients[0].Key = "age1x" }, "recipient"},
		"a recipient twice":               {func(w *world) { w.state.Recipients = append(w.state.Recipients, w.state.Recipients[0]) }, "twice"},
		"a recipient whose name climbs":   {func(w *world) { w.state.Recipients[0].Name = "../x" }, "name"},
		"a certificate that has ended":    {func(w *world) { w.state.Time = w.now.Add(60 * 24 * time.Hour) }, "certificate"},
		"a certificate of another mesh":   {func(w *world) { w.state.Mesh = mesh.NewID() }, "mesh"},
		"a key that is not certified":     {func(w *world) { w.r.Signer = newECDSA(w.t) }, "not of this manifest"},
		"a chain without the root":        {func(w *world) { w.r.Chain = w.r.Chain[:2] }, "root"},
		"no certificates":                 {func(w *world) { w.r.Chain = nil }, "signer"},
		"records that are not in order":   {func(w *world) { w.did(w.now, "a", "b/c"); w.did(w.now.Add(-time.Hour), "a", "b/c") }, "comes after"},
		"a record whose id is no file's":  {func(w *world) { w.audit = []backup.Object{{ID: "../../x", JSON: []byte(`{}`)}} }, "../../x"},
		"a record that is no JSON object": {func(w *world) { w.audit = []backup.Object{{ID: "x", JSON: []byte(`x`)}} }, "audit"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.change(w)
			var last string
			_, err := w.r.Draft(t.Context(), nil, w.state, w.source, func(f backup.File) error { last = f.Path; return nil })
			if err == nil || !strings.Contains(err.Error(), c.text) || last == "manifest.sig" {
				t.Errorf("got %v after %s, want %q", err, last, c.text)
			}
		})
	}
}

func TestErrorsOfOthersEndADraft(t *testing.T) {
	w := newWorld(t)
	w.state.Objects = devices(300)
	broken := errors.New("broken")
	for n := range []int{0, 1, 100, 600} {
		left := n
		_, err := w.r.Draft(t.Context(), nil, w.state, w.source, func(backup.File) error {
			if left--; left < 0 {
				return broken
			}
			return nil
		})
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
	audit := func(string) iter.Seq2[backup.Object, error] {
		return func(yield func(backup.Object, error) bool) { yield(backup.Object{}, broken) }
	}
	if _, err := w.r.Draft(t.Context(), nil, w.state, audit, func(backup.File) error { return nil }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.r.Draft(ctx, nil, w.state, w.source, func(backup.File) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestBothKindsOfKeySign(t *testing.T) {
	w := newWorld(t)
	w.signer(newEd25519(t))
	tree := make(backup.Files)
	w.draft(tree)
	sameState(t, w.state, w.read(tree))
}

// TestARecordThatAppearsLate: the clock of another server, or a slow change, puts
// a record before one that is in the backup already.
func TestARecordThatAppearsLate(t *testing.T) {
	w, tree := newWorld(t), make(backup.Files)
	w.did(w.now, "device.create", "device/a")
	w.did(w.now.Add(time.Minute), "device.create", "device/b")
	w.draft(tree)
	w.did(w.now.Add(30*time.Second), "device.late", "device/c")
	slices.SortFunc(w.audit, func(a, b backup.Object) int { return strings.Compare(a.ID, b.ID) })
	if sum, _ := w.draft(tree); !sum.Changed || len(sum.Acts) != 1 || sum.Acts[0].Action != "device.late" {
		t.Errorf("got %+v", sum)
	}
	sameAudit(t, w.audit, w.read(tree).Audit)
	if sum, _ := w.draft(tree); sum.Changed {
		t.Errorf("drafted again: %+v", sum)
	}
	// Over midnight too, and however many there are.
	for i := range 300 {
		w.did(w.now.Add(16*time.Hour+time.Duration(i-150)*time.Second), "device.create", "device/d")
	}
	w.draft(tree)
	w.did(w.now.Add(16*time.Hour+100*time.Second+time.Microsecond), "device.late", "device/c")
	slices.SortFunc(w.audit, func(a, b backup.Object) int { return strings.Compare(a.ID, b.ID) })
	w.draft(tree)
	out := w.read(tree)
	sameAudit(t, w.audit, out.Audit)
	opts := w.opts()
	opts.AuditAfter = w.audit[200].ID
	out, err := backup.Read(t.Context(), tree, []backup.Identity{w.alice}, opts)
	if err != nil {
		t.Fatal(err)
	}
	sameAudit(t, w.audit[201:], out.Audit)
}

// TestManyRecordsAreManySegments, each of bounded size.
func TestManyRecordsAreManySegments(t *testing.T) {
	w, tree := newWorld(t), make(backup.Files)
	for i := range 60 {
		o := w.did(w.now.Add(time.Duration(i)*time.Second), "device.create", "device/"+strings.Repeat("a", 100_000))
		if len(o.JSON) < 100_000 {
			t.Fatal("too short a record")
		}
	}
	w.draft(tree)
	n := 0
	for path := range tree {
		if strings.HasPrefix(path, "audit/") {
			n++
			if len(tree[path]) > backup.MaxSegment+200_000 {
				t.Errorf("%s has %d bytes", path, len(tree[path]))
			}
		}
	}
	if n != 3 {
		t.Errorf("%d segments", n)
	}
	sameAudit(t, w.audit, w.read(tree).Audit)
}
