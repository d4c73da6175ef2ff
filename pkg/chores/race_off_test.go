//go:build !race

package chores

const childMemory = 256 << 20
