package mgmt

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestWhichDataKeysAServerHasAtEachStep(t *testing.T) {
	old, fresh, stray := store.NewDataKey(), store.NewDataKey(), store.NewDataKey()
	state := rekeyState{From: store.DataKeyID(old), To: store.DataKeyID(fresh)}
	for name, c := range map[string]struct {
		step       rekeyStep
		have, want [][32]byte // want nil: refused
	}{
		"no rekey was ever":                {"", [][32]byte{old}, [][32]byte{old}},
		"not handed yet":                   {rekeyHanding, [][32]byte{old}, [][32]byte{old}},
		"handed":                           {rekeyHanding, [][32]byte{old, fresh}, [][32]byte{old, fresh}},
		"one of an earlier try goes":       {rekeyHanding, [][32]byte{old, stray, fresh}, [][32]byte{old, fresh}},
		"the new one seals":                {rekeySealing, [][32]byte{old, fresh}, [][32]byte{fresh, old}},
		"sealing, and was not handed it":   {rekeySealing, [][32]byte{old}, nil},
		"the old one goes":                 {rekeyDropping, [][32]byte{fresh, old}, [][32]byte{fresh}},
		"off while the others finished":    {rekeyDone, [][32]byte{fresh, old}, [][32]byte{fresh}},
		"a folder from before the rekey":   {rekeyDone, [][32]byte{old}, nil},
		"a step that a later version made": {"later", [][32]byte{old, fresh}, nil},
	} {
		state.Step = c.step
		got, err := state.keysOf(c.have)
		if (err == nil) != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("%s: %d keys, %v", name, len(got), err)
		}
	}
}

// keyFile is what the server's data key file holds.
func (m *member) keyFile(t *testing.T) [][32]byte {
	t.Helper()
	keys, err := store.ReadDataKeys(filepath.Join(m.Config.Dir, fileDataKey))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// rekeyed takes steps at the servers in turn until it is done. between, when
// given, is called after each.
func rekeyed(t *testing.T, at func() *member, between func(admin.RekeyProgress)) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		p, err := admin.SecretsRekey.Call(t.Context(), at().socket(t), admin.None{})
		switch {
		case err == nil && p.Done:
			return
		case time.Now().After(deadline):
			t.Fatalf("the data key is not replaced within 3 minutes: %+v, %v", p, err)
		case err == nil && between != nil:
			between(p)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// opens counts the devices' secrets that the keys open and do not.
func opens(t *testing.T, st *store.Store, keys [][32]byte) (open, shut int) {
	t.Helper()
	st.SetDataKeys(keys)
	all, _, err := st.Devices.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id, d := range all {
		if _, err := st.Unseal(store.DeviceSecretPlace(id), d.Secret); err != nil {
			shut++
		} else {
			open++
		}
	}
	return open, shut
}

// nowhere looks for the keys in the store and in the logs.
func nowhere(t *testing.T, ms []*member, st *store.Store, keys ...[32]byte) {
	t.Helper()
	dump, err := st.Client().Get(t.Context(), "", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, kv := range dump.Kvs {
		texts[string(kv.Key)] = string(kv.Value)
	}
	for _, m := range ms {
		texts["the log of "+m.Config.Name] = m.logs.String()
	}
	for where, text := range texts {
		for i, k := range keys {
			if strings.Contains(text, string(k[:])) || strings.Contains(text, base64.RawURLEncoding.EncodeToString(k[:])) || strings.Contains(text, base64.RawStdEncoding.EncodeToString(k[:])) {
				t.Errorf("data key %d is in %s", i, where)
			}
		}
	}
}

// A new data key replaces the old one on three servers while devices are added,
// wherever a server stops on the way, and the old one then opens nothing.
func TestTheDataKeyIsReplacedWhereverAServerStops(t *testing.T) {
	x := newTrio(t, "a", "b", "c")
	x.fixedEtcd()
	ms := []*member{x.start(0), x.start(1), x.start(2)}
	x.whole(ms...)
	cc := ms[0].socket(t)
	who := call(t, admin.MemberAdd, cc, admin.MemberAddRequest{Name: "Ada"})
	cell := call(t, admin.CellAdd, cc, admin.CellAddRequest{Name: "north", Suffix: "n.example.net", Certificate: mesh.CertificatePrivate})
	devices := 0
	add := func(m *member) {
		t.Helper()
		req := admin.DeviceAddRequest{Name: fmt.Sprint("device ", devices), Member: string(who.ID), Cell: string(cell.ID)}
		eventually(t, req.Name+" is added", func() bool {
			_, err := admin.DeviceAdd.Call(t.Context(), m.socket(t), req)
			return err == nil || errors.Is(err, mesh.ErrExists)
		})
		devices++
	}
	add(ms[0])
	before := ms[0].keyFile(t)

	// With one away nothing begins, and it is named.
	ms[2].stop(t)
	eventually(t, "it is said that c is away", func() bool { // at first nobody may lead
		_, err := admin.SecretsRekey.Call(t.Context(), ms[0].socket(t), admin.None{})
		if err == nil {
			t.Fatal("it began with a server away")
		}
		return errors.Is(err, mesh.ErrConflict) && strings.Contains(err.Error(), `server "c"`) && strings.Contains(mesh.Hint(err), "remove it")
	})
	ms[2] = x.start(2).serves(t)
	x.whole(ms...)

	// After each step another server stops, the one that took the step first;
	// another goes on.
	n, last := 0, ""
	rekeyed(t, func() *member { return ms[n%3] }, func(p admin.RekeyProgress) {
		if p.Doing == last {
			return
		}
		last = p.Doing
		ms[n%3].stop(t)
		ms[n%3] = x.start(n % 3).serves(t)
		n++
		add(ms[n%3])
	})
	if n < 2 {
		t.Errorf("stopped in %d steps only", n)
	}
	after := ms[0].keyFile(t)
	if len(after) != 1 || after[0] == before[0] {
		t.Fatal("the key is the old one, or there are several")
	}
	for _, m := range ms {
		if !slices.Equal(m.keyFile(t), after) {
			t.Errorf("%s has another key", m.Config.Name)
		}
		old, err := filepath.Glob(filepath.Join(m.Config.Dir, "*data.key?*"))
		if err != nil || len(old) > 0 {
			t.Errorf("left of the old key: %v, %v", old, err)
		}
		add(m)
	}
	st := ms[1].store(t)
	if open, shut := opens(t, st, after); open != devices || shut != 0 {
		t.Errorf("the new key opens %d of %d secrets", open, devices)
	}
	if open, _ := opens(t, st, before); open != 0 {
		t.Errorf("the old key still opens %d secrets", open)
	}
	c, err := st.Cells.Get(t.Context(), cell.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Unseal(store.CellKeyPlace(cell.ID), c.Value.CAKey); err == nil {
		t.Error("the old key opens the key of a cell's CA")
	}
	if _, err := (&cluster{r: &runtime{store: st}}).storedRing(t.Context()); err == nil {
		t.Error("the old key opens the key of gossip")
	}
	nowhere(t, ms, st, before[0], after[0])

	// A folder that comes back with the old key is refused, and says why.
	ms[2].stop(t)
	path := filepath.Join(ms[2].Config.Dir, fileDataKey)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteDataKey(path, before[0]); err != nil {
		t.Fatal(err)
	}
	late := x.start(2)
	<-late.done
	if !errors.Is(late.err, ErrSetup) || !strings.Contains(late.err.Error(), "older than the last rekey") {
		t.Errorf("with the old key: %v", late.err)
	}
}
