// Package chores is work that a management server leaves to a child process of
// its own, `meshctl mgmt aux`, and both sides of it. Libraries of others run
// there, and what they break is the child.
//
//	mgmt serve                                 mgmt aux
//	Foreman ── Orders: jobs of the leader ──▶  Work
//	        ◀─ Report: each second ──────────
//
// Jobs are done once in the mesh: the foreman of the server that holds the
// office orders them, and takes them back when it loses the office or the mesh
// is not well. A child that is silent, or does not take up its orders, is killed
// and another one started. The child has no key, no certificate and no
// credential; what it may call is two methods, over a socket without a name.
package chores
