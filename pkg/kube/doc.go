// Package kube is the entry layer on Kubernetes: what is to be in a cluster, and
// the words in which a server and its child speak of that.
//
//	mgmt serve                               mgmt aux
//	Render ── Work: objects ──▶ chores ──▶   client: apply, watch
//	state  ◀── Observation ──── chores ◀──
//
// Rendering is pure: the same release and facts make the same bytes, for the
// cluster, for `--dry-run` and for deploy/kubernetes. Nothing here knows whose the
// cluster is. The library that speaks with the API is below kube/client alone.
package kube
