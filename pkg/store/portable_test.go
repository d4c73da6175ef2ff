package store_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestChangesOfWhatIsExportedAreNoticed(t *testing.T) {
	s := storetest.New(t)
	since := store.Rev(0)
	changed := func(want bool, after string) {
		t.Helper()
		got, rev, err := s.ChangedSince(t.Context(), since)
		if got != want || err != nil {
			t.Errorf("after %s: %v, %v", after, got, err)
		}
		since = rev
	}
	changed(true, "nothing was seen before")
	changed(false, "nothing")
	m := addMember(t, s, "Alice")
	changed(true, "a creation")
	changed(false, "nothing")
	update := func(f func(*store.Tx) error) {
		t.Helper()
		if _, err := s.Update(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	update(func(tx *store.Tx) error {
		return store.Create(tx, s.Status, "core/a", mesh.NodeStatus{Node: "core/a"})
	})
	update(func(tx *store.Tx) error {
		return store.Create(tx, s.BackupState, store.BackupStateKey, mesh.BackupState{})
	})
	changed(false, "a status")
	if err := s.PutCert(t.Context(), mesh.CertRecord{Serial: "7"}); err != nil {
		t.Fatal(err)
	}
	changed(true, "a certificate")
	change(t, s, func(tx *store.Tx) error { return tx.Accessed("device/a") })
	changed(true, "an audit record")
	change(t, s, func(tx *store.Tx) error { return store.Delete(tx, s.Members, m.ID) })
	changed(true, "a deletion")
	since += 1000
	changed(true, "the store went back")
}

func TestAnExportIsOfOneMoment(t *testing.T) {
	s := storetest.New(t)
	addMember(t, s, "Alice")
	was, rev, err := s.Export(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	addMember(t, s, "Bob")
	again, at, err := s.Export(t.Context(), rev)
	if err != nil || at != rev || !reflect.DeepEqual(again, was) {
		t.Errorf("got %v at %d, %v", again, at, err)
	}
	if err := s.Compact(t.Context(), rev+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Export(t.Context(), rev); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("got %v, want compacted", err)
	}
}

func TestASnapshotIsEtcdsDatabase(t *testing.T) {
	s := storetest.New(t)
	addMember(t, s, "Alice")
	var b bytes.Buffer
	n, err := s.Snapshot(t.Context(), &b)
	if err != nil || n != int64(b.Len()) || n%512 != sha256.Size {
		t.Fatal(n, err)
	}
	file := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(file, b.Bytes()[:n-sha256.Size], 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found := false
	if err := db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("key")).ForEach(func(_, v []byte) error {
			found = found || bytes.Contains(v, []byte("Alice"))
			return nil
		})
	}); err != nil || !found {
		t.Errorf("the member is not in it: %v", err)
	}
	if _, err := s.Snapshot(t.Context(), full{}); err == nil {
		t.Error("a copy without room ended well")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestSettingsOfBackupsAndWebhooksAreSealedAnew(t *testing.T) {
	s := storetest.New(t)
	seal := func(place string) mesh.Sealed {
		v, err := s.Seal(place, mesh.Secret("secret of "+place))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	change(t, s, func(tx *store.Tx) error {
		return store.Create(tx, s.Backup, store.BackupKey, mesh.BackupSettings{
			Remotes:        []mesh.BackupRemote{{Name: "a", Credential: seal(store.BackupRemotePlace("a"))}, {Name: "b"}},
			VerifyIdentity: seal(store.BackupVerifyPlace()),
		})
	})
	change(t, s, func(tx *store.Tx) error {
		return store.Create(tx, s.Hooks, "hook", mesh.Webhook{Name: "hook", URL: seal(store.HookURLPlace("hook")), Secret: seal(store.HookSecretPlace("hook"))})
	})
	next := store.NewDataKey()
	s.SetDataKeys([][32]byte{next, storetest.DataKey})
	for _, want := range []int{2, 0} {
		if n, err := s.Reseal(t.Context(), by, 100, func(*store.Tx) error { return nil }); n != want || err != nil {
			t.Fatalf("%d sealed anew, %v; want %d", n, err, want)
		}
	}
	s.SetDataKeys([][32]byte{next})
	it, err := s.Backup.Get(t.Context(), store.BackupKey)
	if err != nil {
		t.Fatal(err)
	}
	hook, err := s.Hooks.Get(t.Context(), "hook")
	if err != nil {
		t.Fatal(err)
	}
	for place, sealed := range map[string]mesh.Sealed{
		store.HookURLPlace("hook"): hook.Value.URL, store.HookSecretPlace("hook"): hook.Value.Secret,
		store.BackupRemotePlace("a"): it.Value.Remotes[0].Credential, store.BackupVerifyPlace(): it.Value.VerifyIdentity,
	} {
		if got, err := s.Unseal(place, sealed); err != nil || got.Reveal() != "secret of "+place {
			t.Errorf("%s: %v", place, err)
		}
	}
	recs, _, err := s.Audit.Latest(t.Context(), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		if strings.Contains(fmt.Sprint(r.Value.Changes), mesh.SealedPrefix) {
			t.Errorf("a sealed value is in the audit: %v", r.Value)
		}
	}
}
