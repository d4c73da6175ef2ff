package acme

import (
	"testing"

	"github.com/meshctl/meshctl/pkg/acme/acmetest"
)

// An authority may ask any server of the zone: all that answer must have it.
func TestARecordIsSeenWhenAllServersThatAnswerHaveIt(t *testing.T) {
	const name, text = "_acme-challenge.a.example.net", "proof"
	record := name + `. 60 IN TXT "` + text + `"`
	d := zone(t)
	r := quick(t, d)
	if err := r.seen(t.Context(), "example.net", name, text); FailureOf(err) != Unseen {
		t.Errorf("before it is there: %v", err)
	}
	d.Put(t, record)
	if err := r.seen(t.Context(), "example.net", name, text); err != nil {
		t.Errorf("once it is there: %v", err)
	}
	// A second server of the same zone, on the same port of another address.
	behind := acmetest.NewDNS(t, nil)
	if r.all(t.Context(), []string{d.Addr, behind.Addr}, name, text) {
		t.Error("seen although one server does not have it")
	}
	behind.Misbehave(0, false, true)
	if !r.all(t.Context(), []string{d.Addr, behind.Addr}, name, text) {
		t.Error("not seen because one server does not answer")
	}
	if !r.all(t.Context(), []string{behind.Addr}, name, text) {
		t.Error("not seen although no server answers and the resolvers know it")
	}
	if r.all(t.Context(), []string{behind.Addr}, name, "another proof") {
		t.Error("seen although nobody has it")
	}
}

func TestWhatAResolverIsAskedFor(t *testing.T) {
	d := zone(t, "sub.example.net. 60 IN A 192.0.2.1", "sub.example.net. 60 IN AAAA 2001:db8::1", "www.example.net. 60 IN CNAME sub.example.net.",
		"loop.example.net. 60 IN CNAME loop.example.net.")
	r := quick(t, d)
	for name, want := range map[string]int{"sub.example.net": 2, "www.example.net": 2, "none.example.net": 0} {
		if got, err := r.Addresses(t.Context(), name); err != nil || len(got) != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"a.b.example.net": "example.net", "example.net": "example.net", "example.org": ""} {
		if got, err := r.apex(t.Context(), name); got != want || (err != nil) != (want == "") {
			t.Errorf("zone of %s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"www.example.net": "sub.example.net", "sub.example.net": "sub.example.net", "loop.example.net": "loop.example.net"} {
		if got, err := r.target(t.Context(), name); got != want || err != nil {
			t.Errorf("target of %s: %q, %v", name, got, err)
		}
	}
	d.Misbehave(0, false, true)
	if _, err := r.Addresses(t.Context(), "sub.example.net"); err == nil {
		t.Error("an answer from nobody")
	}
}
