package cmd

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func newDeviceLink(a *adminCLI, n noun[admin.DeviceView]) *cobra.Command {
	var caFile string
	c := &cobra.Command{
		Use: "link DEVICE", Short: "Print what a device needs to connect, its secret included", Args: takes("DEVICE"),
		ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Print what a device needs to connect: server name, user, secret, the cell's
certificate authority, and a curl line that uses them. Each call is recorded in
the audit log, because it reveals the device's secret.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			l, err := ask(ctx, s, admin.DeviceLinkOf, admin.Ref{Ref: args[0]})
			if err != nil {
				return err
			}
			if caFile != "" {
				if err := writeCA(caFile, l.CA); err != nil {
					return err
				}
			}
			switch {
			case s.format.structured():
				return s.format.print(s.out(), l)
			case s.format == outputName:
				_, err := fmt.Fprintln(s.out(), l.ServerName)
				return err
			}
			return printLink(s, l, caFile)
		}),
	}
	c.Flags().StringVar(&caFile, "ca-file", "", "write the cell's certificate authority to this file")
	return c
}

func writeCA(file, pem string) error {
	if pem == "" {
		return mesh.WithHint(fmt.Errorf("--ca-file: the cell has a public certificate and no authority of its own: %w", mesh.ErrInvalid), "leave --ca-file out")
	}
	if err := os.WriteFile(file, []byte(pem), 0o644); err != nil { // a certificate is public
		return fmt.Errorf("--ca-file: %w", err)
	}
	return nil
}

func printLink(s *adminSession, l admin.DeviceLink, caFile string) error {
	_, suffix, _ := strings.Cut(string(l.ServerName), ".")
	ca := caFile
	if l.CA != "" && ca == "" {
		ca = suffix + "-ca.pem"
	}
	err := printFields(s.out(), []field{
		{"Server name", string(l.ServerName)},
		{"Entries", cmp.Or(listOf(l.Entries), "not configured")},
		{"User", l.User},
		{"Secret", l.Secret},
		{"CA file", ca},
		{"Hidden host", string(l.HiddenHost)},
	})
	if err != nil {
		return err
	}
	if l.CA != "" && caFile == "" {
		if err := s.say("\nwrite the CA file first:\n  meshctl admin device link %s --ca-file %s", l.Device, ca); err != nil {
			return err
		}
	}
	if len(l.Entries) == 0 {
		return s.say("\nno address of an entry is configured:\n  meshctl admin config set entryAddresses=HOST:PORT")
	}
	if host, _, err := net.SplitHostPort(l.Entries[0]); err == nil && net.ParseIP(host) == nil {
		if err := s.say("\nits name must resolve like %s (a DNS record for *.%s serves all devices of the cell)", host, suffix); err != nil {
			return err
		}
	}
	return s.say("\n%s", curlLine(l, ca))
}

// curlLine fetches a page through the first entry. An entry known by address
// needs no DNS record for the device's name: --resolve stands in for it.
func curlLine(l admin.DeviceLink, ca string) string {
	host, port, err := net.SplitHostPort(l.Entries[0])
	if err != nil {
		host, port = l.Entries[0], "443"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "curl --proxy https://%s:%s", l.ServerName, port)
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Is6() {
			host = "[" + host + "]"
		}
		fmt.Fprintf(&b, " --resolve %s:%s:%s", l.ServerName, port, host)
	}
	if ca != "" {
		fmt.Fprintf(&b, " --proxy-cacert %s", shellWord(ca))
	}
	fmt.Fprintf(&b, " --proxy-user %s:%s https://example.com/", l.User, l.Secret)
	return b.String()
}

// shellWord quotes s for a POSIX shell where that is needed.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:@%+=,", r))
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
