package review

import (
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const fuzzAudience = "meshctl:mesh-aaaaaaaaaaaaaaaa"

// Whatever a cluster answers, nothing but a whole pod comes out of it.
func FuzzAnswer(f *testing.F) {
	const good = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"audiences":["meshctl:mesh-aaaaaaaaaaaaaaaa"],` +
		`"user":{"username":"system:serviceaccount:edge:meshctl-entry","extra":{"authentication.kubernetes.io/pod-name":["p-1"],` +
		`"authentication.kubernetes.io/pod-uid":["1b4e28ba-2fa1"],"authentication.kubernetes.io/node-name":["n"]}}}}`
	if _, err := parse([]byte(good), fuzzAudience); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(good))
	f.Add([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"error":"x"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parse(b, fuzzAudience)
		if err != nil {
			if k := mesh.Kind(err); k != mesh.ErrDenied && k != mesh.ErrUnavailable || p != (Pod{}) {
				t.Errorf("%+v, %v", p, err)
			}
			return
		}
		for _, s := range []string{p.Namespace, p.Account, p.Name} {
			if !isName(s) {
				t.Errorf("%q came out", s)
			}
		}
		if !isUID(p.UID) || p.Node != "" && !isName(p.Node) {
			t.Errorf("%+v came out", p)
		}
	})
}

// Whatever a stranger shows, it does not get further without the audience.
func FuzzPlausible(f *testing.F) {
	f.Add("e30.eyJhdWQiOiJtZXNoY3RsOm1lc2gtYWFhYWFhYWFhYWFhYWFhYSJ9.AA")
	f.Add("e30.eyJhdWQiOlsibWVzaGN0bDptZXNoLWFhYWFhYWFhYWFhYWFhYWEiXX0.AA")
	f.Add("..")
	f.Add("e30.bnVsbA.AA")
	f.Add("e30.eyJrdWJlcm5ldGVzLmlvIjp7InBvZCI6eyJ1aWQiOiJhLTEifX19.AA")
	f.Fuzz(func(t *testing.T, s string) {
		if uid := Claimed(mesh.Secret(s)); uid != "" && !isUID(uid) {
			t.Errorf("the UID %q", uid)
		}
		err := plausible(mesh.Secret(s), fuzzAudience)
		if err == nil && len(s) > MaxToken || err != nil && mesh.Kind(err) != mesh.ErrDenied {
			t.Errorf("%v", err)
		}
		if err == nil && plausible(mesh.Secret(s), fuzzAudience+"x") == nil {
			t.Error("good for another audience too")
		}
	})
}
