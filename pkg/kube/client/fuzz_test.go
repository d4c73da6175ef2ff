package client

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FuzzWatched reads objects as a stranger's API may send them: whatever they are,
// nothing panics, and what is reported can be printed.
func FuzzWatched(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"Pod","metadata":{"name":"p","labels":{"meshctl.io/release":"3"}},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}],"containerStatuses":[{"name":"entry","restartCount":2,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":1}}}]}}`,
		`{"kind":"Deployment","metadata":{"name":"d","generation":4,"managedFields":[{"manager":"meshctl","operation":"Apply","fieldsV1":{"f:spec":{"f:replicas":{},"f:list":{"k:{\"name\":\"a\"}":{".":{},"f:x":{}},"v:\"b\"":{},"i:1":{}}}}}]},"spec":{"replicas":2,"list":[{"name":"a","x":1},"b"]},"status":{"observedGeneration":4,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}}`,
		`{"kind":"Service","metadata":{"name":"s"},"spec":{"type":"LoadBalancer","ports":[{"port":443,"nodePort":30000}]},"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"},{"hostname":"h"}]}}}`,
		`{"kind":"DaemonSet","metadata":{"annotations":{"meshctl.io/epoch":"1.2"}},"spec":{"updateStrategy":{"type":"OnDelete"}},"status":7}`,
		`{"kind":"Pod","metadata":3,"status":{"containerStatuses":{"a":1},"conditions":[null]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		u := &unstructured.Unstructured{}
		if u.UnmarshalJSON(data) != nil {
			return
		}
		whose := owner{theMesh, cluster}
		whose.has(u)
		epochOf(u)
		owned(u, manager)
		figuresOf(u)
		balancerOf(u)
		portOf(u, "nodePort")
		sharesNumber(wanted{Unstructured: u}, u)
		p := podOf(u)
		if !utf8.ValidString(p.Reason) || strings.ContainsAny(p.Reason, "\x1b\x00\r") || len(p.Reason) > 300 {
			t.Errorf("reason %q", p.Reason)
		}
		if _, err := json.Marshal(p); err != nil {
			t.Error(err)
		}
		if _, err := diff(u, nil); err != nil {
			t.Error(err)
		}
	})
}

// FuzzDiff: the edits of a diff make the one into the other.
func FuzzDiff(f *testing.F) {
	f.Add("a\nb\nc", "a\nc\nd")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, a, b string) {
		from, to := strings.Split(a, "\n"), strings.Split(b, "\n")
		var was, is []string
		for _, e := range edits(from, to) {
			if e.op != '+' {
				was = append(was, e.line)
			}
			if e.op != '-' {
				is = append(is, e.line)
			}
		}
		if !slices.Equal(was, from) || !slices.Equal(is, to) {
			t.Errorf("%q and %q became %q and %q", from, to, was, is)
		}
		if got := unified(from, to); (got == "") != slices.Equal(from, to) {
			t.Errorf("a diff of %q and %q: %q", from, to, got)
		}
	})
}
