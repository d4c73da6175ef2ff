// Package kubes is a management server's side of the entries that run in
// Kubernetes clusters.
//
//	address*.go  whether their addresses answer, seen from outside the clusters
package kubes
