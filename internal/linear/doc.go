// Package linear holds the tests of what three servers' store promises: a
// history of operations under kills, pauses and partitions is linearizable, and
// changes go on within seconds when the leader dies.
//
// The etcd members are processes of their own, so that signals are real ones, and
// reach each other through proxies that can be cut, so that no root is needed.
package linear
