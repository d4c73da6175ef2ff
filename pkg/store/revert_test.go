package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestAnObjectIsMadeWhatItWas(t *testing.T) {
	s := storetest.New(t)
	id := mesh.NewMemberID()
	was := func(name string) []byte {
		return fmt.Appendf(nil, `{"schema":1,"minReader":1,"id":%q,"name":%q,"state":"active","ofLater":7}`, id, name)
	}
	revert := func(id mesh.MemberID, data []byte) error {
		_, err := s.Change(t.Context(), store.By{Actor: "system:test"}, "revert", func(tx *store.Tx) error {
			return store.Revert(tx, s.Members, id, data)
		})
		return err
	}
	for _, name := range []string{"alice", "bob", "alice"} { // made anew, renamed, renamed back
		if err := revert(id, was(name)); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Members.Lookup(t.Context(), name); err != nil || m.ID != id {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	if _, err := s.Members.Lookup(t.Context(), "bob"); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("the name it had meanwhile is still taken: %v", err)
	}
	all, _, err := s.Export(t.Context(), 0)
	if err != nil || len(all) != 1 || !strings.Contains(string(all[0].Value), `"ofLater":7`) {
		t.Errorf("%v, %v", all, err)
	}
	addMember(t, s, "carol")
	for what, err := range map[string]error{
		"another's id":   revert(mesh.NewMemberID(), was("x")),
		"no name":        revert(id, was("")),
		"too new":        revert(id, []byte(`{"minReader":99}`)),
		"no JSON object": revert(id, []byte(`[]`)),
	} {
		if !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := revert(id, was("carol")); !errors.Is(err, mesh.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := s.Update(t.Context(), func(tx *store.Tx) error { return store.Revert(tx, s.Members, id, was("dora")) }); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("without an audit record: %v", err)
	}
}
