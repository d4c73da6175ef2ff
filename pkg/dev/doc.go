// Package dev runs a whole mesh on loopback: the real binary as child
// processes, each with a folder of its own. It prepares configurations and
// talks to the Admin service like any administrator; it knows no shortcut.
//
//	up:   mgmt ─ready─▶ cell, member, tokens ─▶ cores ─ready─▶ entries ─▶ device
//	down: entries, cores, mgmt; then the folder goes
package dev
