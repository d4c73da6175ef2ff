package nodes

import (
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// Cores and entries are asked at moments that differ by up to two minutes, and
	// cores do not count clients that show no credentials. So they may count more
	// than was relayed by a fifth, and no less than half of it.
	driftMore, driftLess = 5, 2
	// driftFree is a difference that is never told, in bytes.
	driftFree = 256 << 20
)

// drift compares what a core says that it moved since the last comparison with what
// entries relayed through it, and says what is wrong; "": nothing, or nobody knows.
func drift(before, now mesh.MeterPair) string {
	metered, relayed := now.Metered-before.Metered, now.Relayed-before.Relayed
	if metered < 0 || relayed < 0 {
		return ""
	}
	switch {
	case metered > relayed+relayed/driftMore+driftFree:
		return fmt.Sprintf("it says that it moved %d bytes, and entries relayed %d bytes through it", metered, relayed)
	case metered < relayed/driftLess-driftFree:
		return fmt.Sprintf("it says that it moved only %d bytes, and entries relayed %d bytes through it", metered, relayed)
	}
	return ""
}
