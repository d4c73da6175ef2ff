package chores

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestFilesAreTheSameAfterTheirWayInPieces(t *testing.T) {
	for _, size := range []int{0, 1, pieceSize - 1, pieceSize, pieceSize + 1, 3*pieceSize + 5} {
		want := backup.File{Path: "devices/x.yaml", Data: bytes.Repeat([]byte("x"), size), Gone: size == 0}
		j := joiner{limit: maxTree}
		var got []backup.File
		err := pieces(want, func(p *controlpb.Piece) error {
			f, whole, err := j.add(p)
			if whole {
				got = append(got, f)
			}
			return err
		})
		if err != nil || len(got) != 1 || got[0].Path != want.Path || !bytes.Equal(got[0].Data, want.Data) || got[0].Gone != want.Gone {
			t.Errorf("%d bytes: %d files, %v", size, len(got), err)
		}
	}
}

func TestPiecesThatAreNoFileAreRefused(t *testing.T) {
	more := func(path string, n int) *controlpb.Piece {
		return &controlpb.Piece{Path: path, Data: make([]byte, n), More: true}
	}
	for _, c := range []struct {
		name   string
		pieces []*controlpb.Piece
	}{
		{"no name", []*controlpb.Piece{{}}},
		{"nothing at all", []*controlpb.Piece{nil}},
		{"a long name", []*controlpb.Piece{{Path: strings.Repeat("x", maxPath+1)}}},
		{"parts of two files", []*controlpb.Piece{more("a", 1), more("b", 1)}},
		{"a file without end", []*controlpb.Piece{more("a", maxFile), more("a", 1)}},
		{"too much of all", []*controlpb.Piece{{Path: "a", Data: make([]byte, maxFile)}, {Path: "b", Data: make([]byte, maxFile)}}},
	} {
		j := joiner{limit: maxFile + maxFile/2}
		var err error
		for _, p := range c.pieces {
			if err == nil {
				_, _, err = j.add(p)
			}
		}
		if !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestATreeInASpool(t *testing.T) {
	s, err := newSpool(t.TempDir() + "/new")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, f := range []backup.File{{Path: "b/2", Data: []byte("two")}, {Path: "a"}, {Path: "b/1", Data: []byte("one")}} {
		if err := s.put(f); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	note := func(path string, data []byte) error { got = append(got, path+"="+string(data)); return nil }
	for prefix, want := range map[string]string{"": "a= b/1=one b/2=two", "b/": "b/1=one b/2=two", "c": ""} {
		got = nil
		if err := s.Each(t.Context(), prefix, note); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v", prefix, got, err)
		}
	}
	if _, err := s.File(t.Context(), "c"); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("%v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.Each(ended, "", note); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestEveryFailureHasAWordAndAText(t *testing.T) {
	for n := range controlpb.BackupOutcome_Failure_name {
		f := failureOf(controlpb.BackupOutcome_Failure(n))
		if none := n == 0; (f == "") != none || (f.Text() == "") != none {
			t.Errorf("%d: %q, %q", n, f, f.Text())
		}
	}
	if got, want := len(BackupFailures()), len(controlpb.BackupOutcome_Failure_name)-1; got != want {
		t.Errorf("%d words, want %d", got, want)
	}
	if got := failureOf(99); got != FailOther {
		t.Errorf("%q", got)
	}
}

// FuzzOutcome says that nothing gets out of a child but what it was told, ids of
// commits, names of its own form and fingerprints.
func FuzzOutcome(f *testing.F) {
	ordered := &controlpb.BackupOrder{Due: 5, Prove: 3, Remotes: []*controlpb.BackupRemote{{Name: "home"}}}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in controlpb.BackupOutcome
		if proto.Unmarshal(b, &in) != nil {
			return
		}
		out := outcomeOf(&in, ordered)
		if out.Due > 5 || commitOf(out.Commit) != out.Commit || len(out.Remotes) > len(in.GetRemotes()) {
			t.Errorf("%+v", out)
		}
		for _, r := range out.Remotes {
			if r.Name != "home" || commitOf(r.Head) != r.Head || only(refName, r.Tag) != r.Tag || only(refName, r.Conflict) != r.Conflict || only(hostKey, r.HostKey) != r.HostKey {
				t.Errorf("%+v", r)
			}
		}
		if p := out.Proof; p != nil && (p.Prove > 3 || p.Remote != "home" || commitOf(p.Commit) != p.Commit) {
			t.Errorf("%+v", p)
		}
	})
}
