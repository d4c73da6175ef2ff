// Package entry is the entrance node: it accepts client connections, reads the
// server name from each one's first bytes, asks once where that name leads, and
// relays the bytes to a core. It sees no plaintext and decides nothing that its
// route does not say.
//
//	accept ▶ limits ▶ PROXY header (trusted peers) ▶ ClientHello ▶ name ▶ suffix
//	       ▶ Lookup ▶ expiry, device limit ▶ first target that accepts, else the next
//	       ▶ the hello's bytes, then both ways until both sides are done
//
// A connection that is not relayed is reset without a word, for whatever
// reason: a TLS alert, or another ending for each reason, would tell a scanner
// which names exist. Why is in the metrics and, at debug level, in the log.
//
// A client's address and names of devices never appear above debug.
package entry
