package backups

import (
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestASettledConflictIsNoneAnyMore(t *testing.T) {
	tm := &term{
		set: mesh.BackupSettings{Remotes: []mesh.BackupRemote{{Name: "a", Settled: "conflict/1"}, {Name: "b", Settled: "conflict/1"}, {Name: "c"}}},
		state: mesh.BackupState{Remotes: []mesh.BackupRemoteState{
			{Name: "a", Head: "h", Conflict: "conflict/1"}, {Name: "b", Conflict: "conflict/2"}, {Name: "gone"},
		}},
	}
	tm.keepRemotes()
	want := []mesh.BackupRemoteState{{Name: "a", Head: "h"}, {Name: "b", Conflict: "conflict/2"}, {Name: "c"}}
	if len(tm.state.Remotes) != len(want) {
		t.Fatalf("%+v", tm.state.Remotes)
	}
	for i := range want {
		if tm.state.Remotes[i] != want[i] {
			t.Errorf("got %+v, want %+v", tm.state.Remotes[i], want[i])
		}
	}
}
