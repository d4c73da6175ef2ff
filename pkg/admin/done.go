package admin

import (
	"errors"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// ErrDone is what a change that was made before is refused with.
const ErrDone = mesh.DoneBefore

// IsDone says whether err says that the change was made before.
func IsDone(err error) bool {
	return errors.Is(err, mesh.ErrExists) && strings.Contains(err.Error(), ErrDone)
}
