package cmd

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/deploy/systemd"
	"github.com/meshctl/meshctl/pkg/install"
)

// installFlags are what `install` takes.
type installFlags struct {
	role, prefix, root            string
	uninstall, purge, yes, dryRun bool
}

func newInstall() *cobra.Command {
	var f installFlags
	c := &cobra.Command{
		Use:   "install --role ROLE",
		Short: "Make this machine run a role under systemd, or undo it",
		Long: `Puts in place what a role needs: this binary, a user of its own, the folders, a
configuration file with every key as a comment, and a systemd unit. It says what
it does and what is left to you; it starts nothing. A configuration that is there
is never touched, and doing it again changes only what differs, so that a new
release is installed the same way.

--uninstall stops the role and takes away what was put in place. The state, a
configuration that was changed, and the user that owns them stay, unless --purge.`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error { return runInstall(c, f) },
	}
	c.Flags().StringVar(&f.role, "role", "", "mgmt, core or entry")
	c.Flags().StringVar(&f.prefix, "prefix", "/usr/local", "the binary goes to PREFIX/bin/meshctl")
	c.Flags().StringVar(&f.root, "root", "", "install into the image of a machine below this folder")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be done, and do nothing")
	c.Flags().BoolVar(&f.uninstall, "uninstall", false, "take the role away")
	c.Flags().BoolVar(&f.purge, "purge", false, "with --uninstall: also the state with its keys, the configuration and the user")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask before --purge")
	must(c.MarkFlagRequired("role"))
	complete(c, "role", roleNames()...)
	return c
}

func runInstall(c *cobra.Command, f installFlags) error {
	if f.purge && !f.uninstall {
		return usagef("--purge goes with --uninstall")
	}
	example, err := exampleConfig(f.role)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	steps, mood := 0, "*"
	if f.dryRun {
		mood = "would"
	}
	i := &install.Installer{
		Role: f.role, Source: self, Prefix: f.prefix, Root: f.root, Example: example, DryRun: f.dryRun, Manager: install.Systemd{},
		Did: func(what string) {
			steps++
			fmt.Fprintln(c.OutOrStdout(), mood, what)
		},
	}
	if f.uninstall {
		err = uninstall(c, i, f)
	} else {
		err = i.Install(c.Context())
	}
	if err != nil {
		return err
	}
	return sayInstalled(c, i, f, steps)
}

func uninstall(c *cobra.Command, i *install.Installer, f installFlags) error {
	if f.purge && !f.dryRun {
		question := fmt.Sprintf("Delete %s with the keys in it? Nothing brings them back.", i.StateDir())
		if err := confirm(c, f.yes, question); err != nil {
			return err
		}
	}
	return i.Uninstall(context.WithoutCancel(c.Context()), f.purge)
}

// sayInstalled says what is left to do.
func sayInstalled(c *cobra.Command, i *install.Installer, f installFlags, steps int) error {
	switch {
	case steps == 0 && f.uninstall:
		return say(c, "nothing to do: %s is not installed\n", f.role)
	case steps == 0:
		return say(c, "nothing to do: %s is installed as it should be\n", f.role)
	case f.dryRun || f.uninstall:
		return nil
	}
	return say(c, "\n%s", nextSteps(i))
}

func nextSteps(i *install.Installer) string {
	unit := strings.TrimSuffix(systemd.UnitName(i.Role), ".service")
	text := `Next:
  $EDITOR ` + i.ConfigFile() + `
  meshctl doctor --role ` + i.Role + "\n"
	if i.Role == "mgmt" {
		text += `  runuser -u ` + systemd.UserName(i.Role) + ` -- ` + i.Binary() + ` mgmt serve   # founds the mesh, asks for a passphrase; Ctrl-C when it serves
`
	} else {
		text += `  install -d -m 700 /etc/credstore
  install -m 600 /dev/stdin /etc/credstore/` + unit + `-token   # paste the join token, Enter, Ctrl-D
`
	}
	text += `  systemctl enable --now ` + unit + `
  systemctl status ` + unit + `                             # when it serves, and until then what it waits for
`
	if i.Role != "mgmt" {
		text += `  rm /etc/credstore/` + unit + `-token
`
	}
	return text + `After an update: systemctl restart ` + unit + "\n"
}
