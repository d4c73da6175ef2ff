package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/qr"
)

// When a QR code is printed.
const (
	qrAuto   = "auto"
	qrAlways = "always"
	qrNever  = "never"
)

// linkFlags say what of a device is shown.
type linkFlags struct {
	credentials, replace bool
	caFile, qr           string
}

func newDeviceLink(a *adminCLI, n noun[admin.DeviceView]) *cobra.Command {
	var f linkFlags
	c := &cobra.Command{
		Use: "link DEVICE", Short: "Make a device's subscription link, or print its credentials", Args: takes("DEVICE"),
		ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Make the one link that a client needs, and print it with a QR code. Pasted
into an app or opened in a browser, it says what to connect to, now and after every change.
It is shown this once, since only a hash of it is kept; --replace makes another and
ends the one before.

--credentials prints instead what a client needs that is set up by hand: server
name, user, secret, the cell's certificate authority, and a curl line that uses
them. --ca-file writes that authority to a file as well.

Each call is recorded in the audit log.`,
		Example: "  meshctl admin device link alice/phone\n  meshctl admin device link alice/laptop --ca-file ca.pem",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			f.credentials = f.credentials || f.caFile != ""
			switch {
			case f.credentials && f.replace:
				return usagef("--replace makes another link, and --credentials shows none: give one of them")
			case f.credentials:
				return showCredentials(ctx, s, args[0], f.caFile)
			}
			return makeLink(ctx, s, args[0], f)
		}),
	}
	c.Flags().BoolVar(&f.credentials, "credentials", false, "print server name, user and secret instead")
	c.Flags().BoolVar(&f.replace, "replace", false, "make another link, and end the one before")
	c.Flags().StringVar(&f.qr, "qr", qrAuto, "print a QR code: auto (on a terminal), always or never")
	complete(c, "qr", qrAuto, qrAlways, qrNever)
	c.Flags().StringVar(&f.caFile, "ca-file", "", "print credentials, and write the cell's certificate authority to this file")
	return c
}

func makeLink(ctx context.Context, s *adminSession, ref string, f linkFlags) error {
	if f.qr != qrAuto && f.qr != qrAlways && f.qr != qrNever {
		return usagef("--qr %s: want %s, %s or %s", f.qr, qrAuto, qrAlways, qrNever)
	}
	l, err := ask(ctx, s, admin.DeviceSubscribe, admin.DeviceSubscribeRequest{Ref: ref, Replace: f.replace})
	switch {
	case err != nil:
		return err
	case s.format.structured():
		return s.format.print(s.out(), l)
	}
	if _, err := fmt.Fprintln(s.out(), l.URL); err != nil {
		return err
	}
	if f.qr == qrAlways || f.qr == qrAuto && s.format.String() == outputTable && isTerminal(s.out()) {
		if err := printQR(s.out(), l.URL); err != nil {
			return err
		}
	}
	if l.Replaced {
		if err := s.say("\nthe link of before has ended"); err != nil {
			return err
		}
	}
	for _, w := range l.Warnings {
		if err := s.say("\nwarning: %s", clean(w)); err != nil {
			return err
		}
	}
	return s.say("\nit is shown this once, and whoever has it can connect: send it on a way that nobody else reads")
}

func printQR(w io.Writer, text string) error {
	code, err := qr.New(text)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(w, "\n"+code.Terminal())
	return err
}

// showCredentials prints what a client needs that is set up by hand.
func showCredentials(ctx context.Context, s *adminSession, ref, caFile string) error {
	l, err := ask(ctx, s, admin.DeviceLinkOf, admin.Ref{Ref: ref})
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
