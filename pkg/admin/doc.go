// Package admin is the contract of the Admin service: every method with its
// messages and the administrator's role it needs, the table of all of them, and
// the client that `meshctl admin` uses. pkg/mgmt serves it.
//
// Messages travel as JSON over gRPC (content-subtype "json"), because the
// objects are those that are stored and that `-o json` prints
// (docs/adr/0001-wire-protocols.md).
package admin
