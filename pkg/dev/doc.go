// Package dev runs a whole mesh on loopback: the real binary as child
// processes, each with a folder of its own. It prepares configurations and
// talks to the Admin service like any administrator; it knows no shortcut.
//
//	up:   servers ─all in─▶ cell, member, tokens ─▶ cores ─ready─▶ entries ─▶ device
//	down: entries, cores, servers; then the folder goes
package dev
