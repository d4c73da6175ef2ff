//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// A server that is removed is refused by the other servers and by every core,
// with all that it has open, and stops when it comes back; it may join anew.
func TestServerRemoved(t *testing.T) {
	l := theLab(t)
	h := l.Mgmt[1]
	tr := l.Start(t, Traffic{})
	tr.Go(time.Second)
	r := revocation{"a server", nil, map[string]func(context.Context) error{}, func() {
		must(t, l, admin.MgmtRemove, admin.RevokeRequest{Ref: h.Name, Reason: "stolen"})
	}}
	r.with(t, h.identity(t), append(l.meshPorts(h, h), l.relayPorts(h, identity.ProtoProbe)...)...)
	tr.Fault()
	l.measure(t, r)
	told := l.WaitFor(t, patience, "it stops", func() error {
		if h.Running() {
			return errors.New("it runs")
		}
		return nil
	})
	for range 2 {
		if code := h.role.ProcessState.ExitCode(); code != 78 {
			t.Errorf("it ended with %d, want 78, which nobody restarts", code)
		}
		h.Start(t)
		<-h.role.Done
	}
	begin := time.Now()
	l.readmit(t, h)
	took := time.Since(begin)
	tr.Go(2 * time.Second)
	m := tr.Stop(t)
	nothingNoticed(t, m)
	l.Record(t, "server removed, and let in anew with an empty folder", m, took, fmt.Sprintf("until there were three again; it had stopped %s after it was removed", seconds(told)))
}

// readmit lets a server that was removed in as a new one.
func (l *Lab) readmit(t *testing.T, h *Host) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(h.Data(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	passphrase, err := os.ReadFile(l.Passphrase)
	if err != nil {
		t.Fatal(err)
	}
	secret := string(passphrase[:len(passphrase)-1])
	added := must(t, l, admin.MgmtAdd, admin.MgmtAddRequest{Name: h.Name, Passphrase: secret})
	for _, key := range []string{"bootstrap-expect", "peers", "bootstrap-secret-file", "passphrase-file", "founding"} {
		delete(h.Config, key)
	}
	h.Config["token-file"] = l.secretFile(t, "token-"+h.Name, added.Token)
	h.Start(t)
	l.WaitFor(t, patience, h.Name+" is a member", func() error {
		p, err := call(t.Context(), l, admin.MgmtSign, admin.MgmtSignRequest{Name: h.Name, Passphrase: secret})
		if err == nil && (p.Waiting != "" || p.Server == nil || p.Server.State != mesh.ServerMember) {
			err = fmt.Errorf("waiting %s", p.Waiting)
		}
		return err
	})
	l.WaitFor(t, patience, "three servers serve", func() error { return l.serversWell(t.Context()) })
}
