// Package core is an exit node: it accepts relay sessions from entries of its
// mesh, checks each stream against the devices it knows, and lets the traffic
// out.
//
//	entry ══ session ══▶ admit ─┬─ refuse(code, retryable)
//	                            └─ accept ─▶ egress ─┬─ forward: one configured address
//	                                                 └─ proxy: the client's TLS ends here, and in it
//	                                                    speaks VLESS, Trojan, SOCKS or HTTP, over TLS
//	                                                    itself, WebSocket or gRPC; TCP and UDP
//
// What the entry claims about a stream is good for limits and accounting. Who
// may use the proxy is decided by the device's credentials inside the client's
// TLS. Where traffic may go is decided after names were resolved, by the core
// owner's configuration, which management cannot widen.
package core
