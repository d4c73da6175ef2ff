// Package mesh holds the words of meshctl: ids, states and their transitions,
// names, join tokens, error kinds and hints.
//
// It does no I/O and imports the standard library only, so that every other
// package may use it. JSON tags here are the stored form and the form that
// `meshctl admin … -o json` prints.
package mesh
