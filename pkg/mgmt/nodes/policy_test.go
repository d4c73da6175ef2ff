package nodes

import (
	"testing"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// What a pod finds out of its network is on record at once, and stays through a new
// stream until the pod says something else.
func TestWhatAPodFindsOfItsPolicy(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addEntry("pod")
	l := f.greet()
	says := func(policy string) {
		l.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Policy: policy}}})
	}
	becomes := func(want mesh.KubePolicy) {
		t.Helper()
		eventually(t, "on record: "+string(want), func() bool { return n.status(f).Policy == want })
	}
	says("")
	says("enforced")
	becomes(mesh.PolicyEnforced)
	says("open")
	becomes(mesh.PolicyOpen)
	l.hangUp()
	eventually(t, "gone", func() bool { return !n.status(f).Connected })

	f.hello.Boot++
	l = f.greet()
	says("")
	says("none") // is not a pod's to say
	says("something of a later version")
	eventually(t, "back", func() bool { return n.status(f).Connected })
	if got := n.status(f).Policy; got != mesh.PolicyOpen {
		t.Errorf("after a new stream: %q", got)
	}
	says("enforced")
	becomes(mesh.PolicyEnforced)
}

func TestAPodSaysNothingElseOfItsPolicy(t *testing.T) {
	se := new(session)
	for _, p := range []string{"", "none", "unknown", "Open"} {
		if se.report(&controlpb.Report{Policy: p}) || se.policy != mesh.PolicyUnknown {
			t.Errorf("%q became %q", p, se.policy)
		}
	}
	if !se.report(&controlpb.Report{Policy: "open"}) || se.report(&controlpb.Report{Policy: "open"}) || se.report(&controlpb.Report{}) || se.policy != mesh.PolicyOpen {
		t.Error("what is new is not told once")
	}
}
