package cmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

// showRestore shows what would be done.
func showRestore(w io.Writer, p mgmt.RestorePlan, b *fetchedBackup, now time.Time) error {
	signed := "by server " + string(p.Signer) + ", whose certificate chains to the root"
	if p.Signer == "" {
		signed = "NOT by this mesh; believed because of --trust-unsigned"
	}
	var counts []string
	for _, n := range p.Counts {
		counts = append(counts, fmt.Sprintf("%d %s", n.N, n.Kind))
	}
	fields := []field{
		{"Mesh", string(p.Mesh)},
		{"Backup", string(p.From)},
		{"Made", at(p.Made, now)},
		{"Signed", signed},
		{"Newer in there", b.newerText(now)},
		{"Objects", strings.Join(counts, ", ")},
		{"Last change", at(p.Changed, now)},
		{"Epoch", fmt.Sprintf("%d, after %d", p.Epoch, p.Epoch-1)},
		{"This server", string(p.Server)},
		{"Nodes look at", strings.Join(p.Nodes, ", ")},
		{"They will learn", strings.Join(p.Own, ", ")},
		{"Join tokens", fmt.Sprintf("%d unused, will be cancelled", p.Tokens)},
	}
	if len(p.Clusters) > 0 {
		fields = append(fields, field{"Clusters", clean(strings.Join(p.Clusters, ", ")) +
			": with their credentials; entries there go on, and are kept again as the backup has it"})
	}
	for _, s := range p.Lost {
		fields = append(fields, field{"Will be removed", fmt.Sprintf("%s (%s), silent at %s", clean(s.Name), s.ID, strings.Join(s.Addresses, ", "))})
	}
	if err := printFields(w, fields); err != nil {
		return err
	}
	for _, line := range warnings(p) {
		if _, err := fmt.Fprintln(w, "warning:", clean(line)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(w, `What was changed after the backup was made is not in it: who joined since joins
again with a new token, and an administrator whose certificate is newer logs in again.
The servers of before must not come back: destroy them or wipe their data folders.
`)
	return err
}

func warnings(p mgmt.RestorePlan) []string {
	var out []string
	if !p.Reachable() {
		out = append(out, "nodes do not look for management where this server will be ("+strings.Join(p.Own, ", ")+"): give it one of their addresses, or point one of their names at it")
	}
	if p.Unread > 0 {
		out = append(out, fmt.Sprintf("%d parts of the audit cannot be opened by the identities given, and are left out", p.Unread))
	}
	if p.Rekey {
		out = append(out, "the data key was being replaced: go on with meshctl admin secrets rekey afterwards")
	}
	return out
}

// newerText says what the repository has after the backup; "" for nothing.
func (b *fetchedBackup) newerText(now time.Time) string {
	if b.newer == 0 {
		return ""
	}
	return fmt.Sprintf("%d later backups, the last of %s; what is in them alone is lost", b.newer, at(b.newest, now))
}

// printRestored says what remains to be done.
func printRestored(w io.Writer, cfg *mgmtConfig, made mesh.Identity, collect, took time.Duration) error {
	_, err := fmt.Fprintf(w, `restored in %v: %s is a management server of %s now
1. start it: meshctl mgmt serve, with the same flags (systemctl start meshctl-mgmt)
   It serves nobody before all cores and entries have told whom they refuse, or %v are over.
2. let nodes find it: its addresses are %s
3. grow to three at once: meshctl admin mgmt add NAME, for each new server
4. look: meshctl admin status, meshctl admin core list, meshctl admin backup status
5. what is not in a backup: unused join tokens (all cancelled), full copies, files of the servers
   such as mgmt.yaml, ping URL and certificates of load balancers
`, took.Round(100*time.Millisecond), made.ID, made.Mesh, collect, strings.Join(cfg.Advertised(), ", "))
	return err
}
