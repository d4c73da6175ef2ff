// Package lab is what tests have in common that make a network of their own on
// one machine: network namespaces as hosts, programs that run in them, clients
// that open tunnels from them, and a table of what was measured. It needs root
// and iproute2.
package lab
