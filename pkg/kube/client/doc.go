// Package client keeps what is rendered by pkg/kube in a Kubernetes cluster, and
// says how it is there. It is the only package that knows the library.
//
//	Keeper.Set(work) ─▶ pass: GET, compare, server-side apply, prune ─▶ API
//	Keeper.Report ◀─── observe ◀── cache ◀── list and watch, by kind ◀─┘
//
// Everything is applied by one field manager and never forced: a field that somebody
// else keeps otherwise is reported with both names. An object that is there without
// our labels is left alone. Each write has the resource version that was read before
// it, so that of two who write, the one that was late loses, reads again, and finds
// the other's epoch.
package client
