package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
)

const (
	completeWithin = time.Second
	completeAtMost = 200
)

// refsFunc lists the names of live objects for shell completion.
type refsFunc func(ctx context.Context, s *adminSession) ([]string, error)

// refs makes a refsFunc from a list method.
func refs[Req, T any](m admin.Method[Req, admin.List[T]], req func(admin.Page) (Req, error), name func(T) string) refsFunc {
	return func(ctx context.Context, s *adminSession) ([]string, error) {
		l, err := pages(ctx, s, m, completeAtMost, req)
		if err != nil {
			return nil, err
		}
		out := make([]string, len(l.Items))
		for i, v := range l.Items {
			out[i] = name(v)
		}
		return out, nil
	}
}

// completeArgs completes each positional argument from its own list; nil: nothing.
func completeArgs(a *adminCLI, lists ...refsFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(lists) || lists[len(args)] == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeFrom(c, lists[len(args)])
	}
}

// completeFlag completes the value of a flag from live objects.
func completeFlag(a *adminCLI, c *cobra.Command, flag string, list refsFunc) {
	err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.completeFrom(c, list)
	})
	if err != nil {
		panic(err) // the flag does not exist: a programmer's mistake
	}
}

// completeFrom asks the server, briefly. A shell can show no error, so what
// fails completes nothing; `meshctl __complete` tells of it under
// BASH_COMP_DEBUG_FILE.
func (a *adminCLI) completeFrom(c *cobra.Command, list refsFunc) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), completeWithin)
	defer cancel()
	s, err := a.session(c)
	if err == nil {
		var out []string
		out, err = list(ctx, s)
		if e := s.close(); err == nil {
			err = e
		}
		if err == nil {
			return out, cobra.ShellCompDirectiveNoFileComp
		}
	}
	cobra.CompDebugln(err.Error(), false)
	return nil, cobra.ShellCompDirectiveError
}
