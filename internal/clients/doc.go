// Package clients connects with the programs that members have: Xray, sing-box,
// V2Ray, curl and Chromium, each with the configuration that the subscription
// service serves to it, through a mesh of real processes.
//
// The tests stand behind the build tag clients (`make e2e-clients`), since they
// build or install these programs. What passed is printed as a table, and kept in
// docs/clients.md.
//
//	program ── local SOCKS ── the client ── entry ── core ── origin (page, bytes, DNS)
package clients
