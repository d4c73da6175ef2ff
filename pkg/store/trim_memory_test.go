package store

import (
	"slices"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestTheOldestRecordsOfDevicesAndMembersAreTrimmed(t *testing.T) {
	t.Parallel()
	all := map[string]mesh.SignedRevocation{}
	for id, node := range map[string]string{"1": "core/a", "2": "device/a", "3": "member/a", "4": "device/b", "5": "entry/a", "6": ""} {
		all[id] = mesh.SignedRevocation{Record: mesh.Revocation{ID: id, Node: node}}
	}
	for limit, want := range map[int][]string{0: {"2", "3", "4"}, 1: {"2", "3"}, 3: nil, 9: nil} {
		if got := beyondMemory(all, limit); !slices.Equal(got, want) {
			t.Errorf("at most %d: %v are trimmed, want %v", limit, got, want)
		}
	}
}
