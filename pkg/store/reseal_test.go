package store_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestSetDataKeysWaitsForWhatIsBeingWritten(t *testing.T) {
	old, fresh := store.NewDataKey(), store.NewDataKey()
	s := offline(t, old)
	written := s.Sealing()
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		s.SetDataKeys([][32]byte{fresh, old})
	}()
	here := store.DeviceSecretPlace("device-a")
	sealed, err := s.Seal(here, "text")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
		t.Error("the keys changed while a value was being written")
	default:
	}
	written()
	<-changed
	if got, err := s.Unseal(here, sealed); err != nil || got.Reveal() != "text" {
		t.Errorf("what the key before has sealed: %v", err)
	}
	s.SetDataKeys([][32]byte{fresh})
	if _, err := s.Unseal(here, sealed); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("after the key was dropped: %v", err)
	}
}

// A sealed field that Reseal does not know would be lost with the old key.
func TestEverySealedFieldIsSealedAnew(t *testing.T) {
	var found []string
	var walk func(name string, typ reflect.Type)
	walk = func(name string, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walk(name, typ.Elem())
		case reflect.Struct:
			for f := range typ.Fields() {
				if f.IsExported() {
					walk(name+"."+f.Name, f.Type)
				}
			}
		default:
			if typ == reflect.TypeFor[mesh.Sealed]() {
				found = append(found, name)
			}
		}
	}
	kinds := reflect.TypeFor[store.Store]()
	for f := range kinds.Fields() {
		if !f.IsExported() {
			continue
		}
		if get, ok := f.Type.MethodByName("Get"); ok {
			item := get.Type.Out(0)
			walk(f.Name, item)
		}
	}
	want := []string{"ACME.Value.AccountKey", "ACME.Value.DNS.Credential", "ACME.Value.ExternalKey", "Backup.Value.Remotes.Credential", "Backup.Value.SignKey", "Backup.Value.VerifyIdentity", "Cells.Value.CAKey", "Devices.Value.Secret", "Hooks.Value.Secret", "Hooks.Value.URL", "Kubes.Value.Credential", "SubCert.Value.Key", "SubCert.Value.Pending"}
	if slices.Sort(found); !slices.Equal(found, want) {
		t.Errorf("sealed fields %v, want %v: teach Store.Reseal a new one, then list it here", found, want)
	}
}
