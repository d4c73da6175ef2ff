//go:build !race

package child

const (
	childMemory = 256 << 20
	outOfMemory = "out of memory"
)
