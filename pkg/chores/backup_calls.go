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

const (
	// stallTime is how long a draft or a proof may stand still, and proofTime how
	// long the server may take to restore and compare.
	stallTime = 2 * time.Minute
	proofTime = 30 * time.Minute
)

// errStalled ends what stands still.
var errStalled = fmt.Errorf("chores: no progress for too long: %w", context.DeadlineExceeded)

// stall ends a context when there is no progress.
type stall struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func withStall(ctx context.Context) (context.Context, *stall) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &stall{time.AfterFunc(stallTime, func() { cancel(errStalled) }), cancel}
}

// moved says that there was progress, and how soon there has to be more.
func (s *stall) moved(within time.Duration) { s.timer.Reset(within) }

func (s *stall) end() {
	s.timer.Stop()
	s.cancel(nil)
}

// draft asks the server what to change on top of the base, hands each file to
// put as it comes, and returns what the commit is; nil when nothing is to be
// committed.
func draft(ctx context.Context, server controlpb.ChoresClient, base *controlpb.DraftBase, index backup.Tree, put func(backup.File) error) (*controlpb.DraftEnd, error) {
	ctx, stall := withStall(ctx)
	defer stall.end()
	call, err := server.Draft(ctx)
	if err == nil {
		err = sendBase(ctx, call, base, index, stall)
	}
	if err != nil {
		return nil, fault(ctx, err)
	}
	j := joiner{limit: maxTree}
	for {
		resp, err := call.Recv()
		if err != nil {
			return nil, fault(ctx, err)
		}
		stall.moved(stallTime)
		if end := resp.GetEnd(); end != nil {
			if end.GetUnchanged() {
				return nil, nil
			}
			return end, nil
		}
		f, whole, err := j.add(resp.GetFile())
		if err != nil {
			return nil, err
		}
		if whole {
			if err := put(f); err != nil {
				return nil, err
			}
		}
	}
}

func sendBase(ctx context.Context, call controlpb.Chores_DraftClient, base *controlpb.DraftBase, index backup.Tree, stall *stall) error {
	if err := call.Send(&controlpb.DraftRequest{Part: &controlpb.DraftRequest_Base{Base: base}}); err != nil {
		return answered(call, err)
	}
	send := func(p *controlpb.Piece) error {
		stall.moved(stallTime)
		return call.Send(&controlpb.DraftRequest{Part: &controlpb.DraftRequest_Index{Index: p}})
	}
	if index != nil {
		for _, prefix := range []string{"index/", "manifest."} {
			err := index.Each(ctx, prefix, func(path string, data []byte) error {
				if !backup.NeededForDraft(path) {
					return nil
				}
				return pieces(backup.File{Path: path, Data: data}, send)
			})
			if err != nil {
				return answered(call, err)
			}
		}
	}
	return call.CloseSend()
}

// answered is the server's answer when it ended a call that was still sent to,
// and err otherwise.
func answered(call interface{ RecvMsg(any) error }, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if answer := call.RecvMsg(new(controlpb.ProofResponse)); answer != nil {
		return answer
	}
	return err
}

// fault is what a call failed with, and why its context ended if it did.
func fault(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return rpcstatus.From(err)
}

// allowed asks whether the server still leads. It returns ErrDenied when not, and
// another error when nobody can say.
func allowed(ctx context.Context, server controlpb.ChoresClient, epoch *controlpb.BackupEpoch) error {
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if _, err := server.Allow(bounded, &controlpb.AllowRequest{Epoch: epoch}); err != nil {
		if err = fault(ctx, err); mesh.Kind(err) == mesh.ErrNotFound {
			return fmt.Errorf("%w: %w", err, mesh.ErrDenied) // it orders nothing any more
		}
		return err
	}
	return nil
}

// prove hands a tree to the server, which takes note of what it finds.
func prove(ctx context.Context, server controlpb.ChoresClient, begin *controlpb.ProofBegin, tree backup.Tree) error {
	ctx, stall := withStall(ctx)
	defer stall.end()
	call, err := server.Proof(ctx)
	if err != nil {
		return fault(ctx, err)
	}
	if err := call.Send(&controlpb.ProofRequest{Part: &controlpb.ProofRequest_Begin{Begin: begin}}); err != nil {
		return fault(ctx, answered(call, err))
	}
	err = tree.Each(ctx, "", func(path string, data []byte) error {
		return pieces(backup.File{Path: path, Data: data}, func(p *controlpb.Piece) error {
			stall.moved(stallTime)
			return call.Send(&controlpb.ProofRequest{Part: &controlpb.ProofRequest_File{File: p}})
		})
	})
	if err != nil {
		return fault(ctx, answered(call, err))
	}
	stall.moved(proofTime)
	if _, err := call.CloseAndRecv(); err != nil {
		return fault(ctx, err)
	}
	return nil
}
