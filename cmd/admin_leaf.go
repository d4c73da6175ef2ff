package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
)

// takes makes an argument check that names what is missing. A name in brackets
// may be left out.
func takes(names ...string) cobra.PositionalArgs {
	need := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasPrefix(name, "[") })
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(need):
			return usagef("missing argument %s", strings.Join(need[len(args):], " ")).hint("usage: %s", c.UseLine())
		case len(args) > len(names):
			return usagef("unexpected argument %q", args[len(names)]).hint("usage: %s", c.UseLine())
		}
		return nil
	}
}

// plain is the request of a list without filters.
func plain(p admin.Page) (admin.Page, error) { return p, nil }

// newList makes the list leaf of a noun.
func newList[Req, T any](a *adminCLI, n noun[T], m admin.Method[Req, admin.List[T]], limit int, req func(admin.Page) (Req, error)) *cobra.Command {
	c := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List " + n.many, Args: takes()}
	c.Flags().IntVar(&limit, "limit", limit, "at most this many; 0: all")
	c.RunE = a.run(func(ctx context.Context, s *adminSession, _ []string) error {
		if limit < 0 {
			return usagef("--limit %d: want 0 or more", limit)
		}
		l, err := pages(ctx, s, m, limit, req)
		if err != nil {
			return err
		}
		return printList(s.out(), s.format, n, l, s.now)
	})
	return c
}

// pages asks for as many pages as limit needs; 0 is all.
func pages[Req, T any](ctx context.Context, s *adminSession, m admin.Method[Req, admin.List[T]], limit int, req func(admin.Page) (Req, error)) (admin.List[T], error) {
	var all admin.List[T]
	for {
		p := admin.Page{After: all.Next}
		if limit > 0 {
			p.Limit = limit - len(all.Items)
		}
		r, err := req(p)
		if err != nil {
			return all, err
		}
		l, err := ask(ctx, s, m, r)
		if err != nil {
			return all, err
		}
		all.Items, all.Next = append(all.Items, l.Items...), l.Next
		if l.Next == "" || limit > 0 && len(all.Items) >= limit {
			return all, nil
		}
	}
}

// newShow makes the leaf that shows one object.
func newShow[T any](a *adminCLI, n noun[T], m admin.Method[admin.Ref, T]) *cobra.Command {
	return &cobra.Command{
		Use: "show " + n.arg(), Short: "Show one " + n.one, Args: takes(n.arg()), ValidArgsFunction: completeArgs(a, n.refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			v, err := ask(ctx, s, m, admin.Ref{Ref: args[0]})
			if err != nil {
				return err
			}
			return printOne(s.out(), s.format, n, v, s.now)
		}),
	}
}

// deed is a leaf that does one thing to one object.
type deed struct {
	use, short string
	done       string // past participle for the line that reports it
	danger     string // what follows; not empty: asks first
}

// newDeed makes a leaf from a deed, the method that does it and the request
// made from the object's name.
func newDeed[Req, T any](a *adminCLI, n noun[T], d deed, m admin.Method[Req, T], req func(ref string) Req) *cobra.Command {
	return &cobra.Command{
		Use: d.use + " " + n.arg(), Short: d.short, Args: takes(n.arg()), ValidArgsFunction: completeArgs(a, n.refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := s.confirmDeed(d, n.one, args[0]); err != nil {
				return err
			}
			v, err := ask(ctx, s, m, req(args[0]))
			if err != nil {
				return err
			}
			return changed(s, n, v, d.done)
		}),
	}
}

// newRemove makes the leaf that deletes one object.
func newRemove[T any](a *adminCLI, n noun[T], m admin.Method[admin.Ref, admin.None], danger string) *cobra.Command {
	d := deed{use: "remove", danger: danger}
	return &cobra.Command{
		Use: "remove " + n.arg(), Aliases: []string{"rm"}, Short: "Remove " + n.a(), Args: takes(n.arg()), ValidArgsFunction: completeArgs(a, n.refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := s.confirmDeed(d, n.one, args[0]); err != nil {
				return err
			}
			if _, err := ask(ctx, s, m, admin.Ref{Ref: args[0]}); err != nil {
				return err
			}
			return s.say("%s %s removed", n.one, clean(args[0]))
		}),
	}
}

func (s *adminSession) confirmDeed(d deed, kind, ref string) error {
	if d.danger == "" {
		return nil
	}
	verb := strings.ToUpper(d.use[:1]) + d.use[1:]
	return s.confirm(fmt.Sprintf("%s %s %s? %s", verb, kind, clean(ref), d.danger))
}

// changed reports a change: a line for people, the object for programs.
func changed[T any](s *adminSession, n noun[T], v T, done string) error {
	if s.format.String() != outputTable {
		return printOne(s.out(), s.format, n, v, s.now)
	}
	return s.say("%s %s %s", n.one, clean(n.label(v)), done)
}

// given is the value of a flag that was set, otherwise nil.
func given[T any](s *adminSession, flag string, v T) *T {
	if !s.cmd.Flags().Changed(flag) {
		return nil
	}
	return &v
}

// needChange refuses a set that would set nothing.
func (s *adminSession) needChange(flags ...string) error {
	for _, f := range flags {
		if s.cmd.Flags().Changed(f) {
			return nil
		}
	}
	return usagef("nothing to change").hint("give --%s", strings.Join(flags, " or --"))
}
