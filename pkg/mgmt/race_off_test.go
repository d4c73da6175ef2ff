//go:build !race

package mgmt

const (
	childMemory = 256 << 20
	outOfMemory = "out of memory"
)
