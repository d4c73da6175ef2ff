package cmd

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/doctor"
)

func newDoctor() *cobra.Command {
	var name, file string
	var format outputFormat
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check ports, folders, clock, limits and reachability on this machine",
		Long: `Checks what the role on this machine needs, with its configuration, and says what
to mend. It changes nothing and may run beside the role. Without --role it takes
the roles whose configuration file is in /etc/meshctl.

Exit status: 0 when nothing keeps the role from working, 1 otherwise.`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			names := []string{name}
			if name == "" {
				names = configuredRoles()
			}
			if len(names) == 0 {
				return usagef("no role is configured on this machine").hint("say which: meshctl doctor --role mgmt|core|entry")
			}
			checks, err := checksOf(names, file)
			if err != nil {
				return err
			}
			findings := doctor.Examine(c.Context(), checks)
			if err := printFindings(c, format, findings); err != nil {
				return err
			}
			if doctor.Worst(findings) == doctor.Fail {
				return exitError(exitFailure)
			}
			return nil
		},
	}
	c.Flags().StringVar(&name, "role", "", "mgmt, core or entry")
	c.Flags().StringVar(&file, "config", "", "configuration file (default /etc/meshctl/ROLE.yaml when it exists)")
	complete(c, "role", roleNames()...)
	format.flag(c)
	return c
}

func configuredRoles() []string {
	var out []string
	for _, name := range roleNames() {
		if _, err := os.Stat(defaultConfigFile(name)); err == nil {
			out = append(out, name)
		}
	}
	return out
}

func checksOf(names []string, file string) ([]doctor.Check, error) {
	checks := []doctor.Check{doctor.Clock()}
	var errs []error
	for _, name := range names {
		r, err := newRole(name)
		if err != nil {
			return nil, err
		}
		if _, err := loadConfigFrom(nil, name, file, r); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := r.prepare(); err != nil {
			errs = append(errs, &configError{err})
			continue
		}
		checks = append(checks, r.checks()...)
	}
	return checks, errors.Join(errs...)
}

func printFindings(c *cobra.Command, format outputFormat, findings []doctor.Finding) error {
	if format.structured() {
		return format.print(c.OutOrStdout(), findings)
	}
	columns := []column[doctor.Finding]{
		text("RESULT", func(f doctor.Finding) string { return string(f.Status) }),
		text("CHECK", func(f doctor.Finding) string { return f.Check }),
		text("FOUND", func(f doctor.Finding) string { return f.Detail }),
	}
	if err := printTable(c.OutOrStdout(), columns, findings, time.Now(), true); err != nil {
		return err
	}
	for _, f := range findings {
		if f.Mend != "" {
			if _, err := fmt.Fprintf(c.OutOrStdout(), "\n%s: %s\n  %s\n", f.Check, f.Detail, f.Mend); err != nil {
				return err
			}
		}
	}
	return nil
}
