package chores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/mesh"
)

var errNoBackup = fmt.Errorf("chores: no backup is ordered: %w", mesh.ErrNotFound)

// ordered is the backup that the child is to do now; nil: none.
func (f *Foreman) ordered() *controlpb.BackupOrder {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.desk.jobs.backup
}

// Draft answers with what the next commit is to change.
func (f *Foreman) Draft(call controlpb.Chores_DraftServer) error {
	if f.ordered() == nil {
		return rpcstatus.To(errNoBackup)
	}
	base, err := receiveBase(call)
	if err != nil {
		return rpcstatus.To(err)
	}
	send := func(p *controlpb.Piece) error {
		return call.Send(&controlpb.DraftResponse{Part: &controlpb.DraftResponse_File{File: p}})
	}
	d, err := f.Backup.Draft(call.Context(), base, func(file backup.File) error { return pieces(file, send) })
	if err != nil {
		return rpcstatus.To(err)
	}
	end := &controlpb.DraftEnd{Unchanged: true}
	if d != nil {
		end = &controlpb.DraftEnd{Message: d.Message, Revision: d.Revision, TimeUnixNanos: d.Time.UnixNano(), Full: d.Full}
	}
	return call.Send(&controlpb.DraftResponse{Part: &controlpb.DraftResponse_End{End: end}})
}

func receiveBase(call controlpb.Chores_DraftServer) (BackupBase, error) {
	base := BackupBase{Files: map[string][]byte{}}
	j := joiner{limit: maxIndex}
	for first := true; ; first = false {
		req, err := call.Recv()
		if errors.Is(err, io.EOF) && !first {
			return base, nil
		}
		if err != nil {
			return base, err
		}
		if first != (req.GetBase() != nil) {
			return base, fmt.Errorf("chores: draft: the base comes first, and once: %w", mesh.ErrInvalid)
		}
		if first {
			base.Epoch, base.Commit = epochOf(req.GetBase().GetEpoch()), commitOf(req.GetBase().GetCommit())
			continue
		}
		file, whole, err := j.add(req.GetIndex())
		if err != nil {
			return base, err
		}
		if whole {
			base.Files[file.Path] = file.Data
		}
	}
}

// Allow says whether this server still leads.
func (f *Foreman) Allow(ctx context.Context, r *controlpb.AllowRequest) (*controlpb.AllowResponse, error) {
	if f.ordered() == nil {
		return nil, rpcstatus.To(errNoBackup)
	}
	if err := f.Backup.Allow(ctx, epochOf(r.GetEpoch())); err != nil {
		return nil, rpcstatus.To(err)
	}
	return &controlpb.AllowResponse{}, nil
}

// Proof takes the files of a fresh clone and has them proven.
func (f *Foreman) Proof(call controlpb.Chores_ProofServer) error {
	if f.ordered() == nil {
		return rpcstatus.To(errNoBackup)
	}
	tree, err := newSpool(f.Scratch)
	if err != nil {
		return rpcstatus.To(err)
	}
	defer tree.close()
	p, err := receiveProof(call, tree)
	if err != nil {
		return rpcstatus.To(err)
	}
	f.Backup.Prove(call.Context(), p, tree)
	return call.SendAndClose(&controlpb.ProofResponse{})
}

func receiveProof(call controlpb.Chores_ProofServer, into *spool) (BackupProof, error) {
	var p BackupProof
	j := joiner{limit: maxTree}
	for first := true; ; first = false {
		req, err := call.Recv()
		if errors.Is(err, io.EOF) && !first {
			return p, nil
		}
		if err != nil {
			return p, err
		}
		if first != (req.GetBegin() != nil) {
			return p, fmt.Errorf("chores: proof: what it is of comes first, and once: %w", mesh.ErrInvalid)
		}
		if first {
			b := req.GetBegin()
			p = BackupProof{Epoch: epochOf(b.GetEpoch()), Remote: b.GetRemote(), Commit: commitOf(b.GetCommit())}
			continue
		}
		file, whole, err := j.add(req.GetFile())
		if err == nil && whole {
			err = into.put(file)
		}
		if err != nil {
			return p, err
		}
	}
}

// leadBackup keeps the server's side of backups at work while this server leads.
func (f *Foreman) leadBackup(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.Backup.Lead(ctx); err != nil && ctx.Err() == nil {
			f.Log.Error("backups ended", "err", err, "delay", againTime)
		}
		wait(ctx, againTime)
	}
}

// againTime is how long after an end of its own Lead is called again.
const againTime = 10 * time.Second
