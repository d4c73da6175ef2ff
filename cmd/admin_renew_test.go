package cmd

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

// renewsInPassing is part of TestAdminScripts, which has the server.
func renewsInPassing(t *testing.T, server mgmt.Addresses) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Main(append([]string{"admin"}, args...), strings.NewReader(""), &out, &errs); code != exitOK {
			t.Fatalf("%v: exit %d: %s", args, code, errs.String())
		}
		return out.String()
	}
	token := run("--socket", server.Socket, "token", "create", "--role", "admin", "--grant", "auditor", "--name", "rena")
	run("login", "--token", strings.TrimSpace(token))
	first, err := storedAdmin()
	if err != nil {
		t.Fatal(err)
	}
	command := func(now time.Time) string {
		t.Helper()
		var warnings bytes.Buffer
		s := &adminSession{cmd: &cobra.Command{}, cfg: adminConfig{Server: []string{server.Mesh}, Timeout: defaultAdminTimeout}, serverNamed: true, now: now}
		s.cmd.SetErr(&warnings)
		if _, err := ask(t.Context(), s, admin.AdminList, admin.Page{}); err != nil {
			t.Fatal(err)
		}
		s.renew(t.Context())
		if err := s.close(); err != nil || warnings.Len() > 0 {
			t.Errorf("%v %s", err, warnings.String())
		}
		node, err := storedAdmin()
		if err != nil {
			t.Fatal(err)
		}
		if node.Identity() != first.Identity() {
			t.Errorf("it became %s", node.Identity())
		}
		return node.Leaf().SerialNumber.String()
	}
	was := first.Leaf().SerialNumber.String()
	if got := command(time.Now()); got != was {
		t.Error("renewed before it was due")
	}
	late := command(time.Now().Add(61 * 24 * time.Hour))
	if late == was {
		t.Error("not renewed after two thirds of its life")
	}
	if got := command(time.Now()); got != late {
		t.Error("the new certificate was not kept")
	}
}
