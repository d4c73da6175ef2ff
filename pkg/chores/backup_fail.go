package chores

import (
	"context"
	"errors"
	"fmt"

	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// classed is an error of which it is known what to report.
type classed struct {
	class controlpb.BackupOutcome_Failure
	error
}

func (c *classed) Unwrap() error { return c.error }

func class(f controlpb.BackupOutcome_Failure, err error) error {
	if err == nil {
		return nil
	}
	return &classed{f, err}
}

// reasons are the reasons of repo, as they are reported.
var reasons = map[repo.Reason]controlpb.BackupOutcome_Failure{
	"":                    controlpb.BackupOutcome_NONE,
	repo.ReasonName:       controlpb.BackupOutcome_NAME,
	repo.ReasonConnection: controlpb.BackupOutcome_CONNECTION,
	repo.ReasonTLS:        controlpb.BackupOutcome_CERTIFICATE,
	repo.ReasonHostKey:    controlpb.BackupOutcome_HOST_KEY,
	repo.ReasonAuth:       controlpb.BackupOutcome_AUTH,
	repo.ReasonMissing:    controlpb.BackupOutcome_MISSING,
	repo.ReasonRefused:    controlpb.BackupOutcome_REFUSED,
	repo.ReasonForeign:    controlpb.BackupOutcome_NOT_FAST_FORWARD,
	repo.ReasonTimeout:    controlpb.BackupOutcome_TIMEOUT,
	repo.ReasonDiskFull:   controlpb.BackupOutcome_DISK_FULL,
	repo.ReasonDamaged:    controlpb.BackupOutcome_CLONE,
	repo.ReasonLimit:      controlpb.BackupOutcome_DAMAGED,
	repo.ReasonFormat:     controlpb.BackupOutcome_DAMAGED,
	repo.ReasonHostile:    controlpb.BackupOutcome_DAMAGED,
	repo.ReasonNoGit:      controlpb.BackupOutcome_NO_GIT,
}

// failureClass is what is reported of an error.
func failureClass(err error) controlpb.BackupOutcome_Failure {
	if c, ok := errors.AsType[*classed](err); ok {
		return c.class
	}
	if f, ok := reasons[repo.ReasonOf(err)]; ok {
		return f
	}
	return controlpb.BackupOutcome_OTHER
}

// local is an error of the clone: what is missing or unreadable there is no
// fault of a remote.
func local(err error) error {
	switch failureClass(err) {
	case controlpb.BackupOutcome_NONE, controlpb.BackupOutcome_DISK_FULL, controlpb.BackupOutcome_TIMEOUT:
		return err
	}
	if repo.ReasonOf(err) == repo.ReasonCancelled {
		return err // whoever ended it says nothing about the clone
	}
	return class(controlpb.BackupOutcome_CLONE, err)
}

// drafting is an error of a draft that is not the clone's.
func drafting(err error) error {
	switch {
	case errors.Is(err, mesh.ErrDenied), errors.Is(err, mesh.ErrNotFound):
		return class(controlpb.BackupOutcome_DENIED, err)
	case errors.Is(err, context.DeadlineExceeded):
		return class(controlpb.BackupOutcome_TIMEOUT, err)
	}
	return class(controlpb.BackupOutcome_DRAFT, err)
}

// whole says whether an error is none of one remote, and ends the round for all.
func whole(err error) bool {
	switch failureClass(err) {
	case controlpb.BackupOutcome_DISK_FULL, controlpb.BackupOutcome_CLONE, controlpb.BackupOutcome_DENIED,
		controlpb.BackupOutcome_STALE, controlpb.BackupOutcome_DRAFT:
		return true
	}
	return false
}

var errStale = class(controlpb.BackupOutcome_STALE, fmt.Errorf("chores: the remote holds a backup of a later epoch: %w", mesh.ErrDenied))
