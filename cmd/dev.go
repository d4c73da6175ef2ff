package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/dev"
)

func newDev() *cobra.Command {
	return group("dev", "Run a whole mesh on this machine to try things out",
		newDevUp(), newDevDown(), newDevStatus(), newDevLogs())
}

func newDevUp() *cobra.Command {
	var demo bool
	s := dev.Settings{Cores: 2, Entries: 2}
	c := &cobra.Command{
		Use:   "up",
		Short: "Start a whole mesh on loopback: three servers, two cores, two entries, a device",
		Long: `Starts the real roles of this binary as child processes on loopback, each with a
folder of its own, and adds a cell, a member and a device. It stays in the
foreground; one Ctrl-C stops everything and leaves nothing behind.

With --demo it goes through the main job by itself and ends: a page is fetched,
also with what the device's subscription says; while clients open new
connections and one downloads, the management server that leads is killed,
changes work again, it comes back and catches up, and no client has noticed; a
core is killed, the page is fetched through the other core; the device is
revoked and refused. What a client noticed is an error.`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			if s.Servers != 1 && s.Servers != 3 {
				return usagef("--servers %d: a mesh is founded on 1 server or on 3", s.Servers)
			}
			out := c.OutOrStdout()
			s.Say = func(line string) { fmt.Fprintf(out, "    %s\n", line) }
			s.Step = func(what string, took time.Duration) { fmt.Fprintf(out, "  ✓ %-50s %6.2f s\n", what, took.Seconds()) }
			ctx, stop := untilHangUp(c.Context())
			defer stop()
			return runDevUp(ctx, out, s, demo)
		},
	}
	c.Flags().BoolVar(&demo, "demo", false, "show the main job, then stop everything")
	c.Flags().IntVar(&s.Servers, "servers", 3, "how many management servers: 1 or 3")
	c.Flags().StringVar(&s.Dir, "dir", dev.DefaultDir(), "folder for everything it writes; removed at the end")
	c.Flags().StringVar(&s.Forward, "forward", "", "cores pass clients on to this host:port instead of being a proxy")
	c.MarkFlagsMutuallyExclusive("demo", "forward")
	return c
}

// untilHangUp ends also when the terminal goes away, unless somebody wanted
// that ignored, and lets no closed pipe kill the process: a dev mesh is stopped
// and removed in every case that can be noticed.
func untilHangUp(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

func runDevUp(ctx context.Context, out io.Writer, s dev.Settings, demo bool) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("dev: find this binary: %w", err)
	}
	s.Binary = binary
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return fmt.Errorf("dev: %w", err)
	}
	begin := time.Now()
	fmt.Fprintf(out, "a mesh on loopback, in %s\n", s.Dir)
	m, err := dev.Up(ctx, s)
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(out, "stopped while starting, nothing left")
		return nil
	}
	if err != nil {
		return err
	}
	if demo {
		if err := m.Demo(ctx); err != nil {
			return errors.Join(err, m.Close())
		}
	} else {
		printTryNext(out, m)
		err = m.Wait(ctx)
		fmt.Fprintln(out, "stopping")
	}
	if cerr := m.Close(); cerr != nil {
		return cerr
	}
	fmt.Fprintf(out, "everything stopped, nothing left; %.1f s in all\n", time.Since(begin).Seconds())
	return err
}

func printTryNext(out io.Writer, m *dev.Mesh) {
	host, port, _ := net.SplitHostPort(m.EntryAddresses[0])
	fmt.Fprintf(out, `
ready. Try, in another terminal:

  # fetch a page through entry and core
  curl --proxy https://%[1]s:%[2]s --resolve %[1]s:%[2]s:%[9]s \
       --proxy-cacert %[3]s --proxy-user '%[4]s:%[5]s' %[6]s

  # what the device's subscription serves to a client: links, sing-box, Xray, …
  curl --resolve %[12]s:%[2]s:%[9]s --cacert %[13]s -A sing-box/1.12 \
       %[14]s

  # look around and change things
  export MESHCTL_SOCKET=%[7]s
  %[10]s admin status
  %[10]s admin mgmt list
  %[10]s admin device list
  %[10]s admin device suspend %[8]s

  %[10]s dev status%[11]s
  %[10]s dev logs%[11]s core-a

Ctrl-C here stops everything.
`, m.Link.ServerName, port, shellWord(m.CAFile()), m.Link.User, m.Link.Secret, m.Origin.URL(), shellWord(m.SocketPath()), dev.DeviceName, host,
		shellWord(os.Args[0]), dirFlag(m.Dir), dev.SubscriptionName, shellWord(m.SubscriptionCAFile()), m.Subscription.Reveal())
}

// dirFlag is what leads another command to the same folder.
func dirFlag(dir string) string {
	if dir == dev.DefaultDir() {
		return ""
	}
	return " --dir " + shellWord(dir)
}

func newDevDown() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "down",
		Short: "Stop the mesh that `dev up` started",
		Args:  takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
			defer cancel()
			if err := dev.Down(ctx, dir); err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), "stopped, nothing left")
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", dev.DefaultDir(), "folder of the dev mesh")
	return c
}

func newDevStatus() *cobra.Command {
	var dir string
	var format outputFormat
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the parts of the mesh that `dev up` started",
		Args:  takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := dev.Inspect(c.Context(), dir)
			if err != nil {
				return err
			}
			if format.structured() {
				return format.print(c.OutOrStdout(), s)
			}
			columns := []column[dev.Part]{
				text("PART", func(p dev.Part) string { return p.Name }),
				text("STATE", func(p dev.Part) string { return p.State }),
				text("PID", func(p dev.Part) string { return fmt.Sprint(p.PID) }),
				text("HEALTH", func(p dev.Part) string { return "http://" + p.Health + "/readyz" }),
				text("LOG", func(p dev.Part) string { return p.Log }),
			}
			return printTable(c.OutOrStdout(), columns, s.Parts, time.Now(), true)
		},
	}
	c.Flags().StringVar(&dir, "dir", dev.DefaultDir(), "folder of the dev mesh")
	format.flag(c)
	return c
}

func newDevLogs() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "logs [PART]",
		Short: "Print the logs of the mesh that `dev up` started, or of one part",
		Args:  takes("[PART]"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return dev.PartNames(dir), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			part := ""
			if len(args) > 0 {
				part = args[0]
			}
			return dev.Logs(c.OutOrStdout(), dir, part)
		},
	}
	c.Flags().StringVar(&dir, "dir", dev.DefaultDir(), "folder of the dev mesh")
	return c
}
