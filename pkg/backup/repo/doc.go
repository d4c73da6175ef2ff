// Package repo keeps backups in Git: a bare local clone that is written with
// plumbing alone (blobs, trees and commits; no worktree, no index), and the
// remotes that it is pushed to and read from. Nothing is ever forced. The local
// clone is a cache of the remotes: what is damaged in it is set aside, and
// fetched again.
//
// A remote may hold anything. What comes from one is bounded in bytes, objects,
// depth and time before it is read, and refused with a reason.
package repo
