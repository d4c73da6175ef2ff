package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const defaultBackups = 20

// backupEntry is one backup in the history.
type backupEntry struct {
	Commit   string        `json:"commit"`
	Time     time.Time     `json:"time"`
	Server   mesh.ServerID `json:"server,omitzero"` // that signed it
	Epoch    int64         `json:"epoch,omitzero"`
	Leader   int64         `json:"leader,omitzero"`
	Revision int64         `json:"revision,omitzero"`
	Objects  int           `json:"objects,omitzero"`
	// Problem says why this is no backup of the mesh.
	Problem string `json:"problem,omitzero"`
	Author  string `json:"author,omitzero"` // of what is no backup of the mesh
	Message string `json:"message"`
}

func newBackupLog(a *adminCLI) *cobra.Command {
	from := &backupSource{}
	limit := defaultBackups
	c := &cobra.Command{
		Use: "log", Short: "Show the history of the mesh, newest first", Args: takes(),
		Long: `Show the history of the mesh from a repository, newest first: what was done, by whom,
to what. The repository holds ids; with an identity the names are shown beside them.
The signature of each backup is checked against the root.`,
		Example: `  meshctl admin backup log -n 5 --identity safe.key
  meshctl admin backup log --from /srv/backup/mesh.git --root SHA256`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) (err error) {
			if limit < 0 {
				return usagef("-n %d: want 0 or more", limit)
			}
			h, err := from.open(ctx, s, limit)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, h.Close()) }()
			names, err := h.names(ctx, s)
			if err != nil {
				return faulty(s, err)
			}
			entries, err := h.entries(ctx, limit, names)
			if err != nil {
				return err
			}
			return printHistory(s, entries)
		}),
	}
	from.flags(a, c)
	from.identityFlag(c)
	c.Flags().IntVarP(&limit, "limit", "n", limit, "at most this many; 0: all")
	return c
}

func printHistory(s *adminSession, entries []backupEntry) error {
	switch {
	case s.format.structured():
		return s.format.print(s.out(), map[string]any{"items": entries})
	case s.format == outputName:
		for _, e := range entries {
			if _, err := fmt.Fprintln(s.out(), e.Commit); err != nil {
				return err
			}
		}
		return nil
	}
	for _, e := range entries {
		head := fmt.Sprintf("%s  %s  revision %d, epoch %d.%d, by %s", shortCommit(e.Commit), at(e.Time, s.now), e.Revision, e.Epoch, e.Leader, e.Server)
		if e.Problem != "" {
			head = fmt.Sprintf("%s  %s  NOT A BACKUP OF THIS MESH (%s): %s", shortCommit(e.Commit), at(e.Time, s.now), clean(e.Author), clean(e.Problem))
		}
		if _, err := fmt.Fprintln(s.out(), head); err != nil {
			return err
		}
		for line := range strings.Lines(e.Message) {
			if line = clean(strings.TrimSpace(line)); line != "" {
				fmt.Fprintln(s.out(), "   ", line)
			}
		}
	}
	return nil
}

// entries are the newest backups. A commit that is none is among them, marked.
func (h *backupHistory) entries(ctx context.Context, limit int, names map[string]string) ([]backupEntry, error) {
	out := []backupEntry{}
	for c, err := range h.Log(ctx, "") {
		if err != nil {
			return nil, err
		}
		e := backupEntry{Commit: string(c.ID), Time: c.When, Message: withNames(body(c), names)}
		m, server, err := h.manifest(ctx, c.ID)
		switch {
		case err == nil:
			e.Server, e.Epoch, e.Leader, e.Revision, e.Objects = server, m.Epoch, m.Leader, m.Revision, m.Objects
		case errors.Is(err, mesh.ErrDenied), errors.Is(err, mesh.ErrNotFound), errors.Is(err, mesh.ErrInvalid):
			e.Problem, e.Author, e.Message = mesh.Plain(err), c.Author, c.Message
		default:
			return nil, err
		}
		if out = append(out, e); len(out) == limit {
			break
		}
	}
	return out, nil
}

// body is a commit's message without its trailers, and without a subject that only
// sums the lines below up.
func body(c repo.Commit) string {
	subject, rest, _ := strings.Cut(c.Message, "\n\n")
	var lines []string
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		key, _, _ := strings.Cut(line, ": ")
		if _, trailer := c.Trailers[key]; line != "" && !trailer {
			lines = append(lines, line)
		}
	}
	if action, _, _ := strings.Cut(strings.Join(lines, " "), " "); action != "" && strings.HasPrefix(subject, action) {
		return strings.Join(lines, "\n")
	}
	return strings.Join(append([]string{subject}, lines...), "\n")
}

// names are the labels of all objects, by kind/id, of now and, from the audit
// records, of before; none without an identity.
func (h *backupHistory) names(ctx context.Context, s *adminSession) (map[string]string, error) {
	tree, err := h.Tree(h.Head())
	if err != nil {
		return nil, err
	}
	ids, err := h.source.keys(ctx, s, tree)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	state, err := h.read(ctx, h.Head(), ids, true)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string)
	for _, o := range state.Audit {
		var r mesh.AuditRecord
		if err := json.Unmarshal(o.JSON, &r); err != nil {
			return nil, fmt.Errorf("audit record %s: %w: %w", o.ID, err, mesh.ErrInvalid)
		}
		for _, c := range r.Changes {
			for _, v := range []map[string]any{c.Before, c.After} {
				if name, _ := v["name"].(string); name != "" {
					out[c.Object] = name
				}
			}
		}
	}
	for _, o := range state.Objects {
		if name := stringIn(o.JSON, "name"); name != "" {
			out[backup.KindOf(o.Folder)+"/"+o.ID] = name
		}
	}
	return out, nil
}

// anObject is an object or an administrator in a message: kind/id, or admin:id.
var anObject = regexp.MustCompile(`\b([a-z]+)[/:]([a-z]+-[a-z2-7]{16})\b`)

// withNames puts names beside the ids of a message.
func withNames(message string, names map[string]string) string {
	return anObject.ReplaceAllStringFunc(message, func(found string) string {
		m := anObject.FindStringSubmatch(found)
		if name := names[m[1]+"/"+m[2]]; name != "" {
			return fmt.Sprintf("%s %q", found, name)
		}
		return found
	})
}
