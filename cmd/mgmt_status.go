package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

func newMgmtStatus() *cobra.Command {
	cfg := newMgmtConfig()
	var format outputFormat
	c := &cobra.Command{
		Use:   "status",
		Short: "Show this server: etcd, sizes, certificates and their ends, connected nodes",
		Long: `Asks the server over its unix socket. When it does not answer, shows what can be
read from its data folder instead.

Exit status: 0 when the server answers and reports no problem, 69 when it does not
answer, 1 when it reports a problem.`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := loadConfig(c, "mgmt", cfg); err != nil {
				return err
			}
			return runMgmtStatus(c, cfg, format)
		},
	}
	configFlags(c, "mgmt", cfg)
	format.flag(c)
	return c
}

func runMgmtStatus(c *cobra.Command, cfg *mgmtConfig, format outputFormat) error {
	st, err := askStatus(c.Context(), cfg.Socket())
	down := errors.Is(err, mesh.ErrUnavailable)
	if err != nil && !down {
		return err
	}
	if down {
		fault := mesh.Plain(err)
		if st, err = mgmt.Inspect(cfg.Dir); err != nil {
			return err
		}
		st.Name = cmp.Or(st.Name, cfg.Name)
		st.Problems = append([]string{fault}, st.Problems...)
	}
	if format.structured() {
		err = format.print(c.OutOrStdout(), st)
	} else {
		err = printServer(c.OutOrStdout(), st, time.Now())
	}
	switch {
	case err != nil:
		return err
	case down:
		return exitError(exitUnavailable)
	case len(st.Problems) > 0:
		return exitError(exitFailure)
	}
	return nil
}

func askStatus(ctx context.Context, socket string) (admin.ServerStatus, error) {
	link, err := dialAdminSocket(ctx, socket)
	if err != nil {
		return admin.ServerStatus{}, err
	}
	defer link.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	st, err := admin.ServerStatusGet.Call(ctx, link, admin.None{})
	return st, link.explain(err, admin.ServerStatusGet.Need)
}

func printServer(w io.Writer, s admin.ServerStatus, now time.Time) error {
	if err := printFields(w, serverFields(s, now)); err != nil {
		return err
	}
	if len(s.Certificates) > 0 {
		fmt.Fprintln(w)
		columns := []column[admin.CertEnd]{
			text("CERTIFICATE", func(e admin.CertEnd) string { return e.What }),
			{"ENDS", func(e admin.CertEnd, now time.Time) string { return at(e.Ends, now) }},
		}
		if err := printTable(w, columns, s.Certificates, now, true); err != nil {
			return err
		}
	}
	if len(s.Servers) > 1 {
		fmt.Fprintln(w)
		if err := printTable(w, mgmtNoun().columns, s.Servers, now, true); err != nil {
			return err
		}
	}
	if len(s.Nodes) > 0 {
		fmt.Fprintln(w)
		columns := []column[admin.NodeLine]{
			text("NODE", func(n admin.NodeLine) string { return n.Node }),
			text("NAME", func(n admin.NodeLine) string { return clean(n.Name) }),
			text("VERSION", func(n admin.NodeLine) string { return clean(n.Version) }),
			{"CONNECTED", func(n admin.NodeLine, now time.Time) string { return at(n.Connected, now) }},
			text("FROM", func(n admin.NodeLine) string { return n.Observed }),
		}
		if err := printTable(w, columns, s.Nodes, now, true); err != nil {
			return err
		}
	}
	for i, p := range s.Problems {
		if i == 0 {
			fmt.Fprintln(w)
		}
		if _, err := fmt.Fprintln(w, "problem:", clean(p)); err != nil {
			return err
		}
	}
	return nil
}

// highly says whether any server may fail, and why or why not.
func highly(s admin.ServerStatus) string {
	word := "no"
	if s.HighlyAvailable {
		word = "yes"
	}
	return word + " (" + cmp.Or(s.Availability, "not known") + ")"
}

func serverFields(s admin.ServerStatus, now time.Time) []field {
	fields := []field{{"Server", named(s.Name, string(s.Server))}}
	if s.Started.IsZero() {
		return append(fields, field{"Answers", "no"})
	}
	e := s.Etcd
	return append(fields, []field{
		{"Version", s.Version},
		{"Up since", at(s.Started, now)},
		{"Highly available", highly(s)},
		{"etcd", fmt.Sprintf("member %s of %d, leader %s", e.Member, e.Members, e.Leader)},
		{"Revision", fmt.Sprint(e.Revision)},
		{"Database", databaseUse(e)},
		{"Alarms", strings.Join(e.Alarms, ", ")},
		{"Connected nodes", count(len(s.Nodes))},
		{"Child process", childState(s.Aux, now)},
		{"Dead-man ping", pingState(s, now)},
	}...)
}

// childState says how the child process goes; "" when there is none.
func childState(a *admin.AuxStatus, now time.Time) string {
	if a == nil {
		return ""
	}
	text := "down"
	if a.PID != 0 {
		text = fmt.Sprintf("up since %s, pid %d", at(a.Started, now), a.PID)
	}
	if a.LastEnd != "" {
		text += fmt.Sprintf("; started again %d times, it ended %s: %s", a.Restarts, at(a.LastEnded, now), clean(a.LastEnd))
	}
	return text
}

// pingState says who does the dead-man ping and, if it is this server, how it
// goes; "" when none is configured here.
func pingState(s admin.ServerStatus, now time.Time) string {
	if s.Aux == nil || s.Aux.Ping == nil {
		return ""
	}
	p := s.Aux.Ping
	switch {
	case !p.Here && p.Leader == "":
		return "nobody does it yet"
	case !p.Here:
		name := ""
		for _, l := range s.Servers {
			if l.ID == p.Leader {
				name = l.Name
			}
		}
		return "done by " + named(clean(name), string(p.Leader))
	case p.Held != "":
		return "held back: " + clean(p.Held)
	case p.Failures > 0:
		return fmt.Sprintf("failed %s: %s; last arrived: %s", at(p.LastFailure, now), p.Reason, cmp.Or(at(p.LastSuccess, now), "never"))
	case p.LastSuccess.IsZero():
		return "none yet"
	}
	return "arrived " + at(p.LastSuccess, now)
}
