package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// backupDiff is what changed between two backups.
type backupDiff struct {
	From  string         `json:"from"` // commit; "" is before the first
	To    string         `json:"to"`
	Items []objectChange `json:"items"`
}

// objectChange is backup.Difference with stable names.
type objectChange struct {
	Folder  string         `json:"folder"`
	ID      string         `json:"id,omitzero"`
	Kind    string         `json:"kind"`
	Name    string         `json:"name,omitzero"`
	What    backup.Event   `json:"what"`
	Members []memberChange `json:"members"`
}

// memberChange is one member before and after; of a secret neither is said.
type memberChange struct {
	Member string `json:"member"`
	Before string `json:"before,omitzero"`
	After  string `json:"after,omitzero"`
	Secret bool   `json:"secret,omitzero"`
}

// object is kind/id, as audit records have it.
func (c objectChange) object() string {
	kind := c.Kind
	if strings.Contains(kind, " ") {
		kind = c.Folder
	}
	return strings.TrimSuffix(kind+"/"+c.ID, "/")
}

func changesOf(all []backup.Difference) []objectChange {
	out := []objectChange{}
	for _, d := range all {
		c := objectChange{Folder: d.Folder, ID: d.ID, Kind: d.Kind, Name: d.Name, What: d.What, Members: []memberChange{}}
		for _, m := range d.Members {
			c.Members = append(c.Members, memberChange(m))
		}
		out = append(out, c)
	}
	return out
}

func newBackupDiff(a *adminCLI) *cobra.Command {
	from := &backupSource{}
	c := &cobra.Command{
		Use: "diff [COMMIT [COMMIT]]", Short: "Show what changed between two backups", Args: takes("[COMMIT]", "[COMMIT]"),
		ValidArgsFunction: completeArgs(a),
		Long: `Show what changed between two backups, object by object: without a commit in the last
one, with one since then, with two from the first to the second. A commit is named by
at least seven digits, a tag, a time (2027-01-31T12:00:00Z), a day, or as long ago (2h).

Secrets are never shown, only that they changed. Without an identity neither is what
is private.`,
		Example: `  meshctl admin backup diff --identity safe.key
  meshctl admin backup diff 2d --identity safe.key`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) (err error) {
			depth := 0
			if len(args) == 0 {
				depth = defaultBackups
			}
			h, err := from.open(ctx, s, depth)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, h.Close()) }()
			d, err := h.compare(ctx, s, args)
			if err != nil {
				return faulty(s, err)
			}
			switch {
			case s.format.structured():
				return s.format.print(s.out(), d)
			case s.format == outputName:
				for _, i := range d.Items {
					fmt.Fprintln(s.out(), i.object())
				}
				return nil
			case len(d.Items) == 0:
				return s.say("no change")
			}
			for _, i := range d.Items {
				if err := printDifference(s.out(), i); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	from.flags(a, c)
	from.identityFlag(c)
	return c
}

// compare reads the two commits that are meant, with the same identities.
func (h *backupHistory) compare(ctx context.Context, s *adminSession, args []string) (backupDiff, error) {
	old, now, err := h.pair(ctx, s, args)
	if err != nil {
		return backupDiff{}, err
	}
	tree, err := h.Tree(now)
	if err != nil {
		return backupDiff{}, err
	}
	ids, err := h.source.keys(ctx, s, tree)
	if err != nil {
		return backupDiff{}, err
	}
	before := &backup.State{}
	if old != "" {
		if before, err = h.read(ctx, old, ids, false); err != nil {
			return backupDiff{}, err
		}
	}
	after, err := h.read(ctx, now, ids, false)
	if err != nil {
		return backupDiff{}, err
	}
	return backupDiff{From: string(old), To: string(now), Items: changesOf(backup.Diff(before, after))}, nil
}

// pair are the commits to compare; the first is "" before the first backup.
func (h *backupHistory) pair(ctx context.Context, s *adminSession, args []string) (old, now repo.ID, err error) {
	now = h.Head()
	if len(args) == 0 {
		old, err = h.before(ctx, now)
		return old, now, err
	}
	if old, err = h.resolve(ctx, s, args[0]); err != nil || len(args) == 1 {
		return old, now, err
	}
	now, err = h.resolve(ctx, s, args[1])
	return old, now, err
}

// before is the last backup before a commit; what somebody else wrote is none.
func (h *backupHistory) before(ctx context.Context, id repo.ID) (repo.ID, error) {
	for c, err := range h.Log(ctx, id) {
		if err != nil {
			return "", err
		}
		if c.ID == id {
			continue
		}
		switch _, _, err := h.manifest(ctx, c.ID); {
		case err == nil:
			return c.ID, nil
		case !errors.Is(err, mesh.ErrDenied) && !errors.Is(err, mesh.ErrNotFound) && !errors.Is(err, mesh.ErrInvalid):
			return "", err
		}
	}
	return "", nil
}

func printDifference(w io.Writer, d objectChange) error {
	line := fmt.Sprintf("%s %s", d.object(), d.What)
	if d.Name != "" {
		line = fmt.Sprintf("%s %q %s", d.object(), d.Name, d.What)
	}
	if _, err := fmt.Fprintln(w, clean(line)); err != nil {
		return err
	}
	for _, m := range d.Members {
		if _, err := fmt.Fprintln(w, "   ", clean(changeLine(d.What, m))); err != nil {
			return err
		}
	}
	return nil
}

func changeLine(what backup.Event, m memberChange) string {
	switch {
	case m.Secret:
		return m.Member + ": a secret, " + string(what)
	case what == backup.Created:
		return m.Member + ": " + short(m.After)
	case what == backup.Removed:
		return m.Member + ": " + short(m.Before)
	}
	return fmt.Sprintf("%s: %s → %s", m.Member, orText(short(m.Before), "none"), orText(short(m.After), "none"))
}

// short cuts what nobody reads on a terminal, such as signatures; -o json has all.
func short(s string) string {
	const most = 200
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
