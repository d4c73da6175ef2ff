// Package mgmt is the management server: it founds a mesh or resumes one, and
// serves everything that nodes and administrators call.
//
//	found or resume ─▶ health ─▶ etcd ─▶ store ─▶ ca ─▶ services ─▶ nodes ─▶ ports
//
// The order is that of starting; stopping goes backwards, so that the ports
// close first, connected nodes hear a goodbye, and etcd hands over last.
//
// Whoever connects is identified once, by the port that accepted the connection,
// and what an identity may call is one table (access.go). Nothing else in the
// package decides about permission.
package mgmt
