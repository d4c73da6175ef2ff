// Package subs answers clients that ask what they may connect to: the
// subscription service. It has no port of its own. Entries carry clients to it
// in relay sessions, as they carry them to cores, and the client's TLS ends here.
//
//	entry ══ relay ══▶ streams with the service's name ──▶ TLS ──▶ HTTP
//	   /s/<secret> ──▶ index (hash of the secret) ──▶ profile ──▶ document
//
// All it knows comes from copies in memory that follow the store, so it answers
// without a quorum too, and then says how old the answer is.
//
// Whether a secret is unknown, was replaced, or belongs to a device that is gone
// cannot be told from the answer. Secrets are in no log, at no level.
package subs
