package chores

import (
	"fmt"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	pieceSize = 256 << 10 // bytes of a file that go into one message
	maxFile   = 8 << 20
	maxPath   = 512
	maxIndex  = 64 << 20 // of a base, all files together
	maxTree   = 4 << 30  // of a proof, all files together
)

// pieces hands a file to send, in parts that fit into messages.
func pieces(f backup.File, send func(*controlpb.Piece) error) error {
	for data := f.Data; ; data = data[pieceSize:] {
		if len(data) <= pieceSize {
			return send(&controlpb.Piece{Path: f.Path, Data: data, Gone: f.Gone})
		}
		if err := send(&controlpb.Piece{Path: f.Path, Data: data[:pieceSize], More: true}); err != nil {
			return err
		}
	}
}

// joiner puts files together again.
type joiner struct {
	limit int64 // bytes, all files together
	total int64
	begun bool
	file  backup.File
}

// add takes the next part, and returns the file that is complete with it.
func (j *joiner) add(p *controlpb.Piece) (backup.File, bool, error) {
	if j.begun && j.file.Path != p.GetPath() {
		return backup.File{}, false, fmt.Errorf("chores: receive file: its parts are mixed with another's: %w", mesh.ErrInvalid)
	}
	j.total += int64(len(p.GetData()) + len(p.GetPath()))
	if p.GetPath() == "" || len(p.GetPath()) > maxPath || len(j.file.Data)+len(p.GetData()) > maxFile || j.total > j.limit {
		return backup.File{}, false, fmt.Errorf("chores: receive file: too large, or without a name: %w", mesh.ErrInvalid)
	}
	if !j.begun {
		j.begun, j.file = true, backup.File{Path: p.GetPath(), Data: p.GetData(), Gone: p.GetGone()}
	} else {
		j.file.Data = append(j.file.Data, p.GetData()...)
	}
	if p.GetMore() {
		return backup.File{}, false, nil
	}
	f := j.file
	j.begun, j.file = false, backup.File{}
	return f, true, nil
}
