package store

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// WrapKV puts something between the store and etcd.
func (s *Store) WrapKV(f func(clientv3.KV) clientv3.KV) { s.client.KV = f(s.client.KV) }

// SetEvery sets the time between full compares.
func (m *Mirror[K, V]) SetEvery(d time.Duration) { m.every = d }

// Spoil makes the mirror wrong, as a watch would that lost an event.
func (m *Mirror[K, V]) Spoil(f func(map[K]Item[V])) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.items)
	m.all = nil
}

// Replace offers the mirror a full list.
func (m *Mirror[K, V]) Replace(items []Item[V], rev Rev) error { return m.replace(items, rev) }

// DeletionMark is a key that deletions in a folder rewrite.
func DeletionMark(folder string) string { return deletionKey(folder) }

// RouteKey and TargetKey are where this package finds what the gateway gives.
func RouteKey(name string) string { return folderPrefix(folderRoutes) + name }

// TargetKey is like RouteKey.
func TargetKey(id string) string { return folderPrefix(folderTargets) + id }

// LeaseDelay is how long Alive waits for another lease.
func LeaseDelay(n int, ttl time.Duration) time.Duration { return leaseDelay(n, ttl) }
