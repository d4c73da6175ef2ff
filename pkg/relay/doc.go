// Package relay carries client connections from an entry to a core as streams inside a few long
// TLS connections.
//
// A Session is one such connection. The entry opens streams (Open), the core accepts or refuses
// them (Accept); until the core has accepted, no byte of the client is spent, so that another core
// can be tried. A Stream is a net.Conn that tells the end of the peer's bytes (FIN) from a broken
// connection (RST). A Pool keeps sessions to many cores, and Join copies between a stream and a TCP
// connection so that each sees how the other ended.
//
//	client ── TCP ── [Join] ── Stream ══ Session (TLS) ══ Stream ── [Join] ── TCP ── destination
//	                  entry                                          core
//
// A stream's life, as the map of a session sees it:
//
//	opening ──ACCEPT──> open ──FIN each way──> over
//	   │                  │
//	   └─REFUSE──> over   └─RST, or the session ends──> over
//
// One goroutine reads frames and never waits for a stream or for the network's other direction;
// one writes, and is the only one that does. A stream's reader has granted the peer a window of
// credit and holds no more than that, so a slow stream holds back itself alone. Whatever a peer can
// make a session keep has a bound, and a peer that exceeds what it was granted ends the session.
//
// The framing is written down in docs/adr/0001-wire-protocols.md.
package relay
