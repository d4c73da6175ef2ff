package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/audit"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// errAudit is why a check of the audit fails.
var errAudit = errors.New("the audit records are not as they were chained")

// auditChecked is what a check found.
type auditChecked struct {
	Mesh   *mesh.AuditReport `json:"mesh,omitzero"`   // what the servers hold
	Backup *mesh.AuditReport `json:"backup,omitzero"` // what lies in the repository
	Commit string            `json:"commit,omitzero"`
}

func newAuditVerify(a *adminCLI) *cobra.Command {
	from := &backupSource{}
	var anchors []string
	var backupOnly bool
	c := &cobra.Command{
		Use: "verify", Short: "Compare all records with the chain over them", Args: takes(),
		Long: `Compare all records of changes that the servers hold with the chain over them: who
changed, removed or added a record broke it.

Who can write to etcd can also make the whole chain anew. So compare it with what is
elsewhere: with --from and an identity the records and the chain in a backup are checked
as well, and that the mesh has the same chain; --anchor does so with a link that you wrote
down, as an earlier run printed it.`,
		Example: `  meshctl admin audit verify
  meshctl admin audit verify --from git@git.example.net:ops/mesh.git --ssh-key deploy.key --identity safe.key
  meshctl admin audit verify --anchor 412:SHA256`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			known, err := parseAnchors(anchors)
			if err != nil {
				return err
			}
			out := auditChecked{}
			if from.url != "" || len(from.identities) > 0 || from.passphrase {
				if err := out.readBackup(ctx, s, from); err != nil {
					return err
				}
				if r := out.Backup; r.Last != "" {
					known = append(known, mesh.AuditAnchor{Link: r.Last, Sum: r.Sum})
				}
			} else if err := from.unused(s); err != nil {
				return err
			} else if backupOnly {
				return usagef("--backup-only: which backup?").hint("give --from URL and --identity FILE")
			}
			if !backupOnly {
				r, err := ask(ctx, s, admin.AuditVerify, admin.AuditVerifyRequest{Anchors: known})
				if err != nil {
					return err
				}
				out.Mesh = &r
			}
			return out.print(s)
		}),
	}
	from.flags(a, c)
	from.identityFlag(c)
	c.Flags().StringArrayVar(&anchors, "anchor", nil, "link that the chain must have, NUMBER:SUM; may be repeated")
	c.Flags().BoolVar(&backupOnly, "backup-only", false, "ask no server: check the backup alone")
	return c
}

func parseAnchors(texts []string) ([]mesh.AuditAnchor, error) {
	var out []mesh.AuditAnchor
	for _, text := range texts {
		number, sum, _ := strings.Cut(text, ":")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || n == 0 || len(sum) != 64 {
			return nil, usagef("--anchor %q: want NUMBER:SUM, as a check prints it", mesh.Quotable(text))
		}
		out = append(out, mesh.AuditAnchor{Link: audit.Number(n), Sum: strings.ToLower(sum)})
	}
	return out, nil
}

// readBackup checks what lies in the newest backup of a repository.
func (c *auditChecked) readBackup(ctx context.Context, s *adminSession, from *backupSource) (err error) {
	h, err := from.open(ctx, s, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	tree, err := h.Tree(h.Head())
	if err != nil {
		return err
	}
	ids, err := from.keys(ctx, s, tree)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return usagef("the records in a backup are encrypted").hint("give --identity FILE, or --passphrase")
	}
	state, err := h.read(ctx, h.Head(), ids, true)
	if err != nil {
		return faulty(s, err)
	}
	r, err := audit.InBackup(state, s.now)
	if err != nil {
		return err
	}
	c.Backup, c.Commit = &r, string(h.Head())
	return nil
}

func (c *auditChecked) print(s *adminSession) error {
	wrong := 0
	if s.format.structured() {
		if err := s.format.print(s.out(), c); err != nil {
			return err
		}
	}
	for _, one := range []struct {
		where string
		r     *mesh.AuditReport
	}{{"backup " + shortCommit(c.Commit), c.Backup}, {"mesh", c.Mesh}} {
		if one.r == nil {
			continue
		}
		wrong += one.r.Wrong
		if !s.format.structured() {
			if err := printAudit(s.out(), one.where, *one.r); err != nil {
				return err
			}
		}
	}
	if wrong > 0 {
		return mesh.WithHint(fmt.Errorf("%s: %w", counted(wrong, "fault"), errAudit),
			"docs/runbook/audit.md says how to find out who wrote, and what was there before")
	}
	return nil
}

func printAudit(w io.Writer, where string, r mesh.AuditReport) error {
	fields := []field{{"In", where}, {"Records", recordsLine(r)}}
	if r.Links > 0 {
		fields = append(fields, field{"Links", fmt.Sprintf("%d to %s", r.Links, mesh.LinkNumber(r.Last))},
			field{"Anchor", mesh.LinkNumber(r.Last) + ":" + r.Sum})
	}
	if err := printFields(w, fields); err != nil {
		return err
	}
	for _, f := range r.Faults {
		if _, err := fmt.Fprintln(w, "FAULT:", clean(f.String())); err != nil {
			return err
		}
	}
	if n := r.Wrong - len(r.Faults); n > 0 {
		fmt.Fprintf(w, "FAULT: and %d more\n", n)
	}
	if r.Wrong == 0 {
		fmt.Fprintln(w, "all of it is as it was chained")
	}
	_, err := fmt.Fprintln(w)
	return err
}

// recordsLine says how many records were compared, and how many were not.
func recordsLine(r mesh.AuditReport) string {
	parts := []string{fmt.Sprintf("%d compared", r.Records)}
	for _, more := range []struct {
		n    int
		what string
	}{{r.Open, "not chained yet"}, {r.Earlier, "older than the chain"}} {
		if more.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", more.n, more.what))
		}
	}
	text := strings.Join(parts, ", ")
	if r.Trimmed > 0 {
		text += "; those of the oldest " + counted(r.Trimmed, "link") + " are no longer kept"
	}
	return text
}
