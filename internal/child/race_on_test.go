//go:build race

package child

// The race detector maps more than a child may otherwise have, and ends a
// process that gets no memory by itself.
const (
	childMemory = 1 << 30
	outOfMemory = "exit status 66"
)
