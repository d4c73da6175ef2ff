package store_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestKindsThatPeopleChangeNeedAnAuditRecord(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	for name, f := range map[string]func(tx *store.Tx) error{
		"create": func(tx *store.Tx) error { n := member("Bob"); return store.Create(tx, s.Members, n.ID, n) },
		"update": func(tx *store.Tx) error {
			return store.Update(tx, s.Members, m.ID, func(*mesh.Member) error { return nil })
		},
		"delete": func(tx *store.Tx) error { return store.Delete(tx, s.Members, m.ID) },
		"revocation": func(tx *store.Tx) error {
			return store.Create(tx, s.Revocations, "1", mesh.SignedRevocation{Record: mesh.Revocation{ID: "1"}})
		},
		"config": func(tx *store.Tx) error { return store.Create(tx, s.Config, store.ConfigKey, mesh.DefaultConfig()) },
		"audit":  func(tx *store.Tx) error { return store.Create(tx, s.Audit, "1", mesh.AuditRecord{}) },
	} {
		if _, err := s.Update(t.Context(), f); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: got %v, want invalid", name, err)
		}
		if _, err := s.View(t.Context(), f); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s in a view: got %v, want invalid", name, err)
		}
	}
	if _, err := s.Change(t.Context(), by, "forge", func(tx *store.Tx) error {
		return store.Create(tx, s.Audit, "1", mesh.AuditRecord{})
	}); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("a forged audit record: got %v, want invalid", err)
	}
	if _, err := s.Change(t.Context(), store.By{}, "x", func(*store.Tx) error { return nil }); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("nobody: got %v, want invalid", err)
	}
}

func TestTheAuditRecordIsWrittenWithTheChange(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	rev := change(t, s, func(tx *store.Tx) error {
		if err := tx.Event(mesh.Event{Type: mesh.EventTokenUsed, Severity: mesh.Info, Object: "member/" + string(m.ID)}); err != nil {
			return err
		}
		return store.Update(tx, s.Members, m.ID, func(m *mesh.Member) error { m.Note = "new"; return nil })
	})
	items, _, err := s.Audit.Latest(t.Context(), "", 1)
	if err != nil || len(items) != 1 || items[0].Rev != rev {
		t.Fatalf("got %+v, %v; want a record of revision %d", items, err, rev)
	}
	rec := items[0].Value
	if rec.Actor != by.Actor || rec.Request != by.Request || rec.Action != "test" || rec.ID != items[0].Key || time.Since(rec.Time) > time.Minute {
		t.Errorf("got %+v", rec)
	}
	if len(rec.Changes) != 1 || rec.Changes[0].Object != "member/"+string(m.ID) || rec.Changes[0].Before["note"] != nil || rec.Changes[0].After["note"] != "new" {
		t.Errorf("got %+v", rec.Changes)
	}
	events, _, err := s.Events.Latest(t.Context(), "", 10)
	if err != nil || len(events) != 1 || events[0].Rev != rev || events[0].Value.ID != events[0].Key || events[0].Value.Time.IsZero() {
		t.Errorf("got %+v, %v", events, err)
	}
}

func TestWhatChangesNothingIsNotWritten(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	change(t, s, func(tx *store.Tx) error {
		return store.Update(tx, s.Members, m.ID, func(*mesh.Member) error { return nil })
	})
	if all, _, err := s.Audit.List(t.Context()); len(all) != 1 || err != nil {
		t.Errorf("got %d audit records, %v; want that of the creation", len(all), err)
	}
}

func TestSecretsAreNowhereInEtcd(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	const secret, key = "planted-device-secret", "planted-cell-key"
	dev := mesh.Device{ID: mesh.NewDeviceID(), Member: m.ID, Name: "phone", State: mesh.DeviceActive}
	cell := mesh.Cell{ID: mesh.NewCellID(), Name: "c", Suffix: "c.example.net", State: mesh.CellActive}
	tok := mesh.Token{ID: mesh.NewTokenID(), Hash: "planted-token-hash", Role: mesh.RoleCore}
	var err error
	if dev.Secret, err = s.Seal(store.DeviceSecretPlace(dev.ID), secret); err != nil {
		t.Fatal(err)
	}
	dev.Verifiers = mesh.Verifiers{HTTP: "planted-verifier"}
	if cell.CAKey, err = s.Seal(store.CellKeyPlace(cell.ID), key); err != nil {
		t.Fatal(err)
	}
	change(t, s, func(tx *store.Tx) error {
		return errors.Join(store.Create(tx, s.Devices, dev.ID, dev), store.Create(tx, s.Cells, cell.ID, cell),
			store.Create(tx, s.Tokens, tok.ID, tok), store.Create(tx, s.CA, "root", store.Blob{Data: []byte("planted-blob")}))
	})
	change(t, s, func(tx *store.Tx) error { return store.Delete(tx, s.Devices, dev.ID) })
	resp, err := s.Client().Get(t.Context(), "", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range resp.Kvs {
		for _, planted := range []string{secret, key} {
			if strings.Contains(string(kv.Value), planted) {
				t.Errorf("%s holds %s", kv.Key, planted)
			}
		}
		if !strings.HasPrefix(string(kv.Key), "/mesh/v1/audit/") {
			continue
		}
		for _, redacted := range []string{"planted", "sealed:", "verifiers", "cGxhbnRlZC1ibG9i"} {
			if strings.Contains(string(kv.Value), redacted) {
				t.Errorf("audit holds %s: %s", redacted, kv.Value)
			}
		}
		var rec mesh.AuditRecord
		if err := json.Unmarshal(kv.Value, &rec); err != nil || len(rec.Changes) == 0 {
			t.Errorf("got %+v, %v", rec, err)
		}
	}
	got, err := s.Unseal(store.DeviceSecretPlace(dev.ID), dev.Secret)
	if err != nil || got.Reveal() != secret {
		t.Errorf("got %v, %v back", got, err)
	}
}
