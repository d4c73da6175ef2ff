package store_test

import (
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func BenchmarkGet(b *testing.B) {
	s := storetest.New(b)
	m := addMember(b, s, "Alice")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Members.Get(b.Context(), m.ID); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChange(b *testing.B) {
	s := storetest.New(b)
	m := addMember(b, s, "Alice")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		change(b, s, func(tx *store.Tx) error {
			return store.Update(tx, s.Members, m.ID, func(m *mesh.Member) error { m.Note = fmt.Sprint(i); return nil })
		})
	}
}

func BenchmarkListOf10000(b *testing.B) {
	s := storetest.New(b)
	const n = 10_000
	for i := 0; i < n; {
		var ops []clientv3.Op
		for ; len(ops) < 100; i++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/mesh/v1/certs/%d", 1_000_000+i), fmt.Sprintf(`{"schema":1,"minReader":1,"serial":"%d","node":"core/core-aaaa"}`, 1_000_000+i)))
		}
		if _, err := s.Client().Txn(b.Context()).Then(ops...).Commit(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if all, _, err := s.Certs.List(b.Context()); err != nil || len(all) != n {
			b.Fatal(len(all), err)
		}
	}
}
