// Package nodes is the server's side of the phone-home: it holds the stream of
// every core and entry, tells each what applies to it, and keeps what is known
// of nodes (status, states of cores, targets, routes) true.
//
//	node ─ Hello ─▶ admit (role, clock, duplicates) ─ Welcome ─▶ session
//	mirrors of the store ─▶ plan: configuration, device tables ─▶ sessions ─ Ack ─▶ status
//	session ─ Probe ⇄ dial-back ─▶ state of the core ─▶ target
//	status, devices, cores … ─▶ routes
//
// Everything is level-triggered. A session compares what its node should have
// with what it was sent, so however slow a node is, nothing queues up for it.
// Loops compare what the store says with what it should say; a wake-up that is
// missed costs time until the next full pass, and nothing else.
package nodes
