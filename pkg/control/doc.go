// Package control is a node's side of the mesh port: enrolling with a join
// token, phoning home, and renewing the node's certificate.
//
// What differs between roles is behind RoleHandler; what every node does alike
// (epochs, clocks, revocations, configuration, pings, back-off) is here, once.
package control
