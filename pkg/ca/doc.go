// Package ca is the certificate authority of a mesh: the root that stays
// sealed, the intermediate of one management server, and what they sign. It
// hides smallstep's libraries, which only this package imports.
//
// What a certificate says is decided here, by what the caller knows about the
// requester: of a request only the public key is used. One-time use of tokens,
// who may renew, and what is on record are decided in transactions of the
// caller's store.
//
// Apart from the mesh's own CA stand two that never admit a node: one per cell,
// for what clients see, and etcd's.
package ca
