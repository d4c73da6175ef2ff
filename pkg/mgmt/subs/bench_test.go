package subs

import (
	"net/http"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// The secret of a device is one look-up away, whatever the number of devices.
func BenchmarkAnswer(b *testing.B) {
	w := start(b, func(s *Service) { s.Limits = Limits{Misses: 1 << 30, Fetches: 1 << 30} })
	cell, ada := w.addCell("Berlin"), w.addMember("ada")
	id, secret := w.addDevice(ada, cell)
	w.known(b, secret)
	for name, path := range map[string]string{
		"links": "/s/" + secret.Reveal(), "sing-box": "/s/" + secret.Reveal() + "?format=sing-box", "miss": "/s/" + mesh.NewSecret(24).Reveal(),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w.ask(path, "192.0.2.1:1")
			}
		})
	}
	b.Run("sing-box made anew", func(b *testing.B) {
		for b.Loop() {
			w.cache.put(docKey{device: id, format: "sing-box"}, &document{})
			w.ask("/s/"+secret.Reveal()+"?format=sing-box", "192.0.2.1:1")
		}
	})
	b.Run("over the relay", func(b *testing.B) {
		c := w.client(b, w.entry(b, "entry-1"), true)
		for b.Loop() {
			if r := get(b, c, secret); r.status != http.StatusOK {
				b.Fatal(r.status)
			}
		}
	})
	b.Run("over the relay, a connection each", func(b *testing.B) {
		sess := w.entry(b, "entry-1")
		for b.Loop() {
			c := w.client(b, sess, true)
			if r := get(b, c, secret); r.status != http.StatusOK {
				b.Fatal(r.status)
			}
			c.CloseIdleConnections()
		}
	})
}

func BenchmarkIndexOf100kDevices(b *testing.B) {
	f := newFacts()
	cell, ada := f.addCell("Berlin"), f.addMember("ada")
	for range 100_000 {
		f.addDevice(ada, cell)
	}
	x := index{state: f}
	for b.Loop() {
		x.rebuild()
	}
}
