package mesh

import (
	"testing"
	"time"
)

func TestAPodIsAlwaysTheSameEntry(t *testing.T) {
	const uid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
	a, b := KubeID("kube-aaaaaaaaaaaaaaaa"), KubeID("kube-bbbbbbbbbbbbbbbb")
	got := PodEntryID(a, uid)
	if got != "entry-zjxugxo5sieyxc6n" {
		t.Errorf("%s: what was stored under the old id is another entry now", got)
	}
	if _, err := ParseEntryID(string(got)); err != nil {
		t.Error(err)
	}
	if PodEntryID(b, uid) == got || PodEntryID(a, uid[1:]) == got || PodEntryID(a[:len(a)-1], "a"+uid) == got {
		t.Error("another pod is the same entry")
	}
}

func TestWhichPodItIs(t *testing.T) {
	p := EntryPod{Cluster: "kube-a", Namespace: "n", Name: "p", UID: "u"}
	moved := p
	moved.Node, moved.Gone = "node", time.Now()
	if !p.Is(moved) || p.IsZero() || !(EntryPod{}).IsZero() {
		t.Error("the same pod is another")
	}
	for what, o := range map[string]EntryPod{
		"cluster": {Cluster: "kube-b", Namespace: "n", Name: "p", UID: "u"}, "namespace": {Cluster: "kube-a", Namespace: "m", Name: "p", UID: "u"},
		"name": {Cluster: "kube-a", Namespace: "n", Name: "q", UID: "u"}, "uid": {Cluster: "kube-a", Namespace: "n", Name: "p", UID: "v"},
	} {
		if p.Is(o) {
			t.Errorf("one of another %s is the same pod", what)
		}
	}
}

func TestTheRootsTextReadsBack(t *testing.T) {
	sum := [32]byte{1, 2, 0xff}
	if got, err := ParseRoot(RootText(sum)); err != nil || got != sum {
		t.Errorf("%x, %v", got, err)
	}
	for _, s := range []string{"", "00", RootText(sum) + "00", RootText(sum)[:63] + "g"} {
		if _, err := ParseRoot(s); Kind(err) != ErrInvalid {
			t.Errorf("%q: %v", s, err)
		}
	}
}
