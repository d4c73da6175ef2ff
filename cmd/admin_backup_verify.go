package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// backupReport is what a look at a backup found, without any server.
type backupReport struct {
	From     string         `json:"from"`
	Commit   string         `json:"commit"`
	Mesh     mesh.ID        `json:"mesh"`
	Server   mesh.ServerID  `json:"server"` // that signed it
	Epoch    int64          `json:"epoch"`
	Leader   int64          `json:"leader"`
	Revision int64          `json:"revision"`
	Time     time.Time      `json:"time"`
	Secrets  bool           `json:"secrets"`  // it has a private part
	Opened   bool           `json:"opened"`   // which was decrypted
	DataKeys int            `json:"dataKeys"` // that came out of it
	Objects  map[string]int `json:"objects"`  // by folder
	Audit    int            `json:"audit"`    // records of changes that could be read
	Unread   int            `json:"auditUnread,omitzero"`
	Took     mesh.Duration  `json:"took"`
}

// verifyHere reads a repository and everything in its newest backup.
func verifyHere(ctx context.Context, s *adminSession, from *backupSource) (err error) {
	begun := time.Now()
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
	state, err := h.read(ctx, h.Head(), ids, true)
	if err != nil {
		return faulty(s, err)
	}
	r := backupReport{
		From: h.url, Commit: string(h.Head()), Mesh: state.Mesh, Server: state.Server, Epoch: state.Epoch, Leader: state.Leader,
		Revision: state.Revision, Time: state.Time, Secrets: state.Secrets, Opened: len(ids) > 0 && state.Secrets,
		DataKeys: len(state.Keys.Data), Objects: map[string]int{}, Audit: len(state.Audit), Unread: state.AuditUnread,
	}
	for _, o := range state.Objects {
		r.Objects[o.Folder]++
	}
	r.Took = mesh.Duration(time.Since(begun).Round(time.Millisecond))
	if s.format.structured() {
		return s.format.print(s.out(), r)
	}
	return r.print(s)
}

// faulty prints every fault, a line each, and leaves a short error.
func faulty(s *adminSession, err error) error {
	all, ok := errors.AsType[*backup.FaultsError](err)
	if !ok || s.format.structured() {
		return err
	}
	for _, f := range all.Faults {
		fmt.Fprintln(s.err(), clean(f.String()))
	}
	return mesh.WithHint(fmt.Errorf("%d faults: %w: %w", all.Count, errBackup, mesh.ErrInvalid),
		"take another commit (meshctl admin backup log), another remote, or a full copy")
}

func (r backupReport) print(s *adminSession) error {
	var parts []string
	total := 0
	for _, folder := range slices.Sorted(maps.Keys(r.Objects)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.Objects[folder], folder))
		total += r.Objects[folder]
	}
	private := "opened, with " + counted(r.DataKeys, "data key") + " and the sealed root"
	switch {
	case !r.Secrets:
		private = "NONE: no recipient was set; a restore has to make everything anew that is secret"
	case !r.Opened:
		private = "NOT OPENED: give --identity FILE"
	}
	err := printFields(s.out(), []field{
		{"From", r.From}, {"Commit", r.Commit}, {"Mesh", string(r.Mesh)}, {"Signed by", string(r.Server)},
		{"Made", at(r.Time, s.now)}, {"Of", fmt.Sprintf("revision %d, epoch %d.%d", r.Revision, r.Epoch, r.Leader)},
		{"Objects", fmt.Sprintf("%d (%s)", total, strings.Join(parts, ", "))},
		{"Audit records", auditLine(r)},
		{"Private part", private},
		{"Took", time.Duration(r.Took).String()},
	})
	if err != nil {
		return err
	}
	if !r.Opened {
		return s.say("\nsignature and digests hold; what is private was not looked at")
	}
	return s.say("\nthis backup restores with this identity and the root passphrase, which was not asked for here")
}

func auditLine(r backupReport) string {
	if r.Unread > 0 {
		return fmt.Sprintf("%d; %s of before this identity was a recipient", r.Audit, counted(r.Unread, "file"))
	}
	return count(r.Audit)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// stringIn is a member of an object that is text, "" when it has none.
func stringIn(text []byte, member string) string {
	var v map[string]any
	if json.Unmarshal(text, &v) != nil {
		return "" // an object of another form has no member that is known here
	}
	s, _ := v[member].(string)
	return s
}
