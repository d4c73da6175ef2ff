// Package gateway is both sides of RouteGateway: how an entry learns about one
// route and one target at a time, in etcd's own protocol.
//
// The server is etcd's KV and Watch API cut down to reads of single keys below
// /mesh/v1/routes/ and /mesh/v1/targets/. Whatever is not spelled out as
// allowed is PermissionDenied, so that an entry that was taken over learns the
// routes of the clients that connect to it and nothing more: no range, no
// prefix, no other key, no write, no lease, no cluster or maintenance call.
//
// The client answers one question, Lookup, and keeps watches on the targets it
// was asked about. It remembers its last answer for each name and gives it
// again, for a while, when no management server answers.
//
// Of several servers the nearest healthy one is asked first, and another beside
// it once that has taken longer than usual. Each is probed when nobody has asked
// it for two seconds, so that who is silent is known before a client comes.
//
//	entry ── Range routes/<name> (serializable) ──▶ Server ──▶ local etcd
//	      ── on a miss: the same, linearizable ───▶ within a budget per entry
//	      ── Txn of targets/<id>, if not watched ─▶
//	      ◀─ Watch targets/<id> ──────────────────
package gateway
