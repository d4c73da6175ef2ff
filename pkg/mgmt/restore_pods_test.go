package mgmt

import (
	"path/filepath"
	"testing"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/identity"
)

// Who a pod is, the cluster says, and how to ask it is in the backup: pods come back
// as the entries they were, also those that are newer than the backup.
func TestPodsComeBackAfterARestore(t *testing.T) {
	conf := testConfig(filepath.Join(t.TempDir(), "data"))
	conf.MeshListen, conf.Etcd.PeerListen = freeport.Addr(t), freeport.Addr(t)
	r, err := start(conf, new(logBuffer), givePassphrase)
	if err != nil {
		t.Fatal(err)
	}
	c := r.cluster(t)
	enrolls := func(r *running, token string) *identity.Node {
		t.Helper()
		n, _, err := r.enrollPod(t, c.ID, token)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	_, known := c.pod()
	_, later := c.pod()
	before := map[string]*identity.Node{known: enrolls(r, known)}
	s := r.save(t)
	before[later] = enrolls(r, later)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}

	conf.Dir, conf.Name = filepath.Join(t.TempDir(), "data"), "beta"
	if _, err := s.restoration(conf).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err = start(conf, new(logBuffer), givePassphrase); err != nil {
		t.Fatal(err)
	}
	defer r.stop()
	eventually(t, "it serves", func() bool { return !r.nodes.Collecting() })
	for token, was := range before {
		n := enrolls(r, token)
		if n.Identity() != was.Identity() {
			t.Errorf("it was %v, and is %v", was.Identity(), n.Identity())
		}
		if e := r.entry(t, n); e.Pod.Cluster != c.ID || e.Pod.UID == "" || e.Revoked {
			t.Errorf("on record is %+v", e)
		}
	}
}
