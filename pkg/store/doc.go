// Package store is the typed state of a mesh in etcd and the only holder of
// keys. Everything else sees collections and transactions.
//
//	read     Collection.Get, List, Page, Lookup, Watch; Mirror; Store.View
//	write    Store.Change   audited: who, when, before and after, in the same
//	                        etcd transaction
//	         Store.Update   derived kinds only: routes, targets, status, certs
//
// There is no blind put: a transaction compares all it has read. What it read
// is of one revision, and it commits only if nothing of that has changed since;
// else its function runs again. A commit whose outcome is not known (a server
// that went away, a deadline) is repeated in a form that can succeed once, so a
// change is neither made twice nor reported failed though it was made.
//
// Errors are those of pkg/mesh, translated from etcd's in one place.
package store
