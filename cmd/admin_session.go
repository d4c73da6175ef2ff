package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const defaultAdminTimeout = 30 * time.Second

// adminSession is one run of one command: where it writes, and the server it
// asks, which is dialled at the first question.
type adminSession struct {
	cmd         *cobra.Command
	cfg         adminConfig
	serverNamed bool // for this run, by flag or environment
	format      outputFormat
	yes         bool
	now         time.Time
	link        *adminLink
}

// run makes a command's RunE. The session lives as long as the call.
func (a *adminCLI) run(fn func(ctx context.Context, s *adminSession, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		s, err := a.session(c)
		if err != nil {
			return err
		}
		err = fn(c.Context(), s, args)
		if err == nil {
			s.renew(c.Context())
		}
		return errors.Join(whereToLook(c, args, err), s.close())
	}
}

// whereToLook says which list has what a command's one argument did not find.
func whereToLook(c *cobra.Command, args []string, err error) error {
	if len(args) != 1 || c.Name() == "set" || !errors.Is(err, mesh.ErrNotFound) || mesh.Hint(err) != "" {
		return err // the flags of set name other things
	}
	for _, sibling := range c.Parent().Commands() {
		if sibling.Name() == "list" {
			return mesh.WithHint(err, "see `"+sibling.CommandPath()+"`")
		}
	}
	return err
}

func (a *adminCLI) session(c *cobra.Command) (*adminSession, error) {
	s := &adminSession{cmd: c, format: a.format, yes: a.yes, now: time.Now()}
	s.cfg.Timeout = defaultAdminTimeout
	file, err := adminConfigFile()
	if err != nil {
		return nil, err
	}
	origins, err := loadConfigFrom(c.Flags(), "admin", file, &s.cfg)
	if err != nil {
		return nil, err
	}
	if s.cfg.Timeout <= 0 {
		return nil, &configError{fmt.Errorf("configuration: timeout %v: want more than 0: %w", s.cfg.Timeout, mesh.ErrInvalid)}
	}
	for _, a := range s.cfg.Server {
		if host, _, err := net.SplitHostPort(a); err != nil || host == "" {
			return nil, &configError{fmt.Errorf("configuration: server %q: want host:port: %w", mesh.Quotable(a), mesh.ErrInvalid)}
		}
	}
	for _, o := range origins {
		if o.Key == "server" {
			s.serverNamed = strings.HasPrefix(o.Origin, "flag") || strings.HasPrefix(o.Origin, "env")
		}
	}
	if c.Flags().Changed("server") && !c.Flags().Changed("socket") {
		s.cfg.Socket = ""
	}
	return s, nil
}

func (s *adminSession) out() io.Writer { return s.cmd.OutOrStdout() }
func (s *adminSession) err() io.Writer { return s.cmd.ErrOrStderr() }

// say prints a line for people; with another format nothing.
func (s *adminSession) say(format string, args ...any) error {
	if s.format.String() != outputTable {
		return nil
	}
	_, err := fmt.Fprintf(s.out(), format+"\n", args...)
	return err
}

func (s *adminSession) close() error {
	if s.link == nil {
		return nil
	}
	return s.link.Close()
}

// conn dials once. It returns errors that say what is missing.
func (s *adminSession) conn(ctx context.Context) (grpc.ClientConnInterface, error) {
	if s.link != nil {
		return s.link, nil
	}
	link, err := dialAdmin(ctx, s.cfg, s.serverNamed)
	if err != nil {
		return nil, err
	}
	s.link = link
	return link, nil
}

// ask calls a method of the server within the session's time.
func ask[Req, Resp any](ctx context.Context, s *adminSession, m admin.Method[Req, Resp], req Req) (Resp, error) {
	cc, err := s.conn(ctx)
	if err != nil {
		var none Resp
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	resp, err := m.Call(ctx, cc, req)
	return resp, s.link.explain(err, m.Need)
}

func (s *adminSession) confirm(question string) error { return confirm(s.cmd, s.yes, question) }
