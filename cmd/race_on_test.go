//go:build race

package cmd

// The race detector maps more than a child may otherwise have.
const childMemory = 1 << 30
