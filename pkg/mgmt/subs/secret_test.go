package subs

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// ask has the service answer without a network.
func (w *world) ask(path, from string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = from
	r.Header.Set("User-Agent", agentLinks)
	for _, do := range change {
		do(r)
	}
	rec := httptest.NewRecorder()
	w.answer(rec, r)
	return rec
}

func (w *world) known(t testing.TB, secret mesh.Secret) {
	t.Helper()
	eventually(t, "the link is known", func() bool { _, ok := w.index.find(secret); return ok })
}

// S-08, S-09: a secret that was replaced, that of a device that is gone, and one
// that never was, are answered alike.
func TestWhatIsNotThereLooksAlike(t *testing.T) {
	w := start(t, func(s *Service) { s.Limits.Misses = 1000 })
	cell, ada := w.addCell("Berlin"), w.addMember("ada")
	rotatedID, rotated := w.addDevice(ada, cell)
	revokedID, revoked := w.addDevice(ada, cell)
	removedID, removed := w.addDevice(ada, cell)
	left := w.addMember("bob")
	_, archived := w.addDevice(left, cell)
	_, good := w.addDevice(ada, cell)
	w.known(t, good)
	w.setDevice(rotatedID, func(d *mesh.Device) { d.Subscription.Hash = mesh.SubscriptionHash(mesh.NewSecret(24)) })
	w.setDevice(revokedID, func(d *mesh.Device) { d.State = mesh.DeviceRevoked })
	w.setMember(left, func(m *mesh.Member) { m.State = mesh.MemberArchived })
	w.change(func() { delete(w.devices, removedID) })

	near := []byte(good.Reveal())
	near[len(near)-1] ^= 1
	want := w.ask("/s/"+mesh.NewSecret(24).Reveal(), "192.0.2.1:1")
	if want.Code != http.StatusNotFound {
		t.Fatalf("unknown: %d", want.Code)
	}
	for name, path := range map[string]string{
		"rotated": "/s/" + rotated.Reveal(), "revoked": "/s/" + revoked.Reveal(), "removed": "/s/" + removed.Reveal(),
		"archived": "/s/" + archived.Reveal(), "near miss": "/s/" + string(near), "shortened": "/s/" + good.Reveal()[:20],
		"longer": "/s/" + good.Reveal() + "A", "none": "/s/", "root": "/", "another path": "/x/" + good.Reveal(),
		"case": "/s/" + strings.ToUpper(good.Reveal()), "huge": "/s/" + strings.Repeat("a", 8000),
		"with a format": "/s/" + rotated.Reveal() + "?format=clash", "with a format that is none": "/s/" + rotated.Reveal() + "/nothing",
		"the hash": "/s/" + mesh.SubscriptionHash(good),
	} {
		got := w.ask(path, "192.0.2.1:1")
		if got.Code != want.Code || got.Body.String() != want.Body.String() || !maps.EqualFunc(got.Header(), want.Header(), slices.Equal) {
			t.Errorf("%s: %d %q %v, want %d %q %v", name, got.Code, got.Body, got.Header(), want.Code, want.Body, want.Header())
		}
	}
	if r := w.ask("/s/"+good.Reveal(), "192.0.2.1:1"); r.Code != http.StatusOK {
		t.Errorf("the good one: %d", r.Code)
	}
	for _, s := range []mesh.Secret{rotated, revoked, good} {
		if strings.Contains(w.logs.String(), s.Reveal()) {
			t.Error("a secret is in the log")
		}
	}
}

// S-09: ten thousand guesses find nothing, and are slowed down; who has a good
// secret is answered all the same, from the same address too.
func TestGuessing(t *testing.T) {
	w := start(t)
	_, good := w.addDevice(w.addMember("ada"), w.addCell("Berlin"))
	w.known(t, good)
	codes := map[int]int{}
	for range 10_000 {
		codes[w.ask("/s/"+mesh.NewSecret(24).Reveal(), "198.51.100.9:1234").Code]++
	}
	if codes[http.StatusNotFound]+codes[http.StatusTooManyRequests] != 10_000 || codes[http.StatusTooManyRequests] < 9000 {
		t.Errorf("answers: %v", codes)
	}
	if r := w.ask("/s/"+good.Reveal(), "198.51.100.9:1235"); r.Code != http.StatusOK {
		t.Errorf("a good secret from that address: %d", r.Code)
	}
	if r := w.ask("/s/"+mesh.NewSecret(24).Reveal(), "198.51.100.10:1"); r.Code != http.StatusNotFound {
		t.Errorf("another address: %d", r.Code)
	}
}

func TestOneSecretIsNotFetchedWithoutEnd(t *testing.T) {
	w := start(t)
	cell, ada := w.addCell("Berlin"), w.addMember("ada")
	_, busy := w.addDevice(ada, cell)
	_, other := w.addDevice(ada, cell)
	w.known(t, other)
	codes := map[int]int{}
	for i := range 200 {
		codes[w.ask("/s/"+busy.Reveal(), fmt.Sprintf("192.0.2.%d:1", i)).Code]++
	}
	if codes[http.StatusOK] < 30 || codes[http.StatusTooManyRequests] < 150 {
		t.Errorf("answers: %v", codes)
	}
	if r := w.ask("/s/"+other.Reveal(), "192.0.2.1:1"); r.Code != http.StatusOK {
		t.Errorf("another secret: %d", r.Code)
	}
}

// S-09, timing: the time of an answer tells nothing of whether the secret was one
// once. Medians, since this machine does other things as well.
func TestTheTimeTellsNothing(t *testing.T) {
	w := start(t, func(s *Service) { s.Limits.Misses = 1 << 20 })
	cell, ada := w.addCell("Berlin"), w.addMember("ada")
	revokedID, revoked := w.addDevice(ada, cell)
	left := w.addMember("bob")
	_, archived := w.addDevice(left, cell)
	for range 500 {
		w.addDevice(ada, w.addCell("Oslo"))
	}
	w.known(t, archived)
	w.setMember(left, func(m *mesh.Member) { m.State = mesh.MemberArchived })
	w.setDevice(revokedID, func(d *mesh.Device) { d.State = mesh.DeviceRevoked })
	unknown := mesh.NewSecret(24)
	took := map[string][]time.Duration{}
	for range 2000 {
		for name, s := range map[string]mesh.Secret{"unknown": unknown, "revoked": revoked, "archived": archived} {
			began := time.Now()
			w.ask("/s/"+s.Reveal(), "192.0.2.1:1")
			took[name] = append(took[name], time.Since(began))
		}
	}
	median := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)/2] }
	for name, d := range took {
		if diff := median(d) - median(took["unknown"]); diff.Abs() > 200*time.Microsecond {
			t.Errorf("%s: %v, unknown: %v", name, median(d), median(took["unknown"]))
		}
	}
}

func TestMethodsThatChangeNothingOnly(t *testing.T) {
	w := start(t)
	_, good := w.addDevice(w.addMember("ada"), w.addCell("Berlin"))
	w.known(t, good)
	for _, m := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodConnect, http.MethodOptions, "BREW"} {
		for _, s := range []mesh.Secret{good, mesh.NewSecret(24)} {
			r := w.ask("/s/"+s.Reveal(), "192.0.2.1:1", func(r *http.Request) { r.Method = m })
			if r.Code != http.StatusMethodNotAllowed || r.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s: %d", m, r.Code)
			}
		}
	}
}

func FuzzNoPathFindsADevice(f *testing.F) {
	w := start(f, func(s *Service) { s.Limits.Misses = 1 << 30 })
	_, good := w.addDevice(w.addMember("ada"), w.addCell("Berlin"))
	w.known(f, good)
	for _, seed := range []string{"/", "/s/", "/s/x", "/s//x", "/s/x/y?format=clash", "/s/%2e%2e", "/s/" + strings.Repeat("A", 32), "//s/x", "/s/x;y", "/s/\x00", "/S/x"} {
		f.Add(seed, "", "")
	}
	f.Fuzz(func(t *testing.T, path, agent, format string) {
		if strings.Contains(path, good.Reveal()) {
			return
		}
		r := &http.Request{Method: http.MethodGet, URL: pathOf(path, format), Header: http.Header{"User-Agent": {agent}}, RemoteAddr: path}
		rec := httptest.NewRecorder()
		w.answer(rec, r)
		if rec.Code != http.StatusNotFound {
			t.Errorf("%q: %d", path, rec.Code)
		}
	})
}

func pathOf(path, format string) *url.URL {
	return &url.URL{Path: path, RawQuery: "format=" + format}
}
