//go:build !race

package cmd

const childMemory = 256 << 20
