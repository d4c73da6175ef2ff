// Package identity is a node's own key and certificate on disk, and the one
// check of everybody else's: who a verified leaf says its holder is, whether
// that may still be believed, and the TLS configurations that ask.
//
// A chain to the mesh root is not an identity. Every listener and dialer takes
// its configuration from here, where VerifyConnection (which unlike
// VerifyPeerCertificate also runs on resumption) checks the chain, the key
// usage, the one URI name, the role that the protocol admits, and revocation.
package identity
