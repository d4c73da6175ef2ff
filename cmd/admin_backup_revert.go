package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func newBackupRevert(a *adminCLI) *cobra.Command {
	from := &backupSource{}
	var object, when string
	c := &cobra.Command{
		Use: "revert --object KIND/ID --at COMMIT|TIME", Short: "Bring one object back to what it was", Args: takes(),
		Long: `Bring one object back to what it was in a backup, also one that was removed since: a
member, device, cell, core, entry, administrator (admin) or the configuration
(config/mesh). Instead of the id the name it had then serves as well. What would change
is shown, and you are asked first.

What was revoked stays revoked, of nodes only what operators own comes back, and a
secret that was sealed under a data key that has been replaced since does not.`,
		Example: `  meshctl admin backup revert --object member/alice --at 2h --identity safe.key
  meshctl admin backup revert --object config/mesh --at 2027-01-31 --identity safe.key`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			kind, ref, ok := strings.Cut(object, "/")
			folder := folderOfKind(kind)
			if !ok || ref == "" || folder == "" {
				return usagef("--object %q: want KIND/ID, with one of the kinds %s", mesh.Quotable(object), strings.Join(slices.Sorted(maps.Keys(revertKinds())), ", "))
			}
			o, commit, err := from.objectAt(ctx, s, when, folder, ref)
			if err != nil {
				return faulty(s, err)
			}
			return revertTo(ctx, s, o, commit)
		}),
	}
	from.flags(a, c)
	from.identityFlag(c)
	c.Flags().StringVar(&object, "object", "", "object to bring back: kind/id, or kind/name")
	c.Flags().StringVar(&when, "at", "", "commit, tag, time, day, or as long ago (2h)")
	completeFlag(a, c, "object", revertRefs)
	for _, f := range []string{"object", "at"} {
		if err := c.MarkFlagRequired(f); err != nil {
			panic(err) // the flag does not exist: a programmer's mistake
		}
	}
	return c
}

// revertKinds are the folders of the kinds of which an object can be brought back.
func revertKinds() map[string]string {
	return map[string]string{
		"member": "members", "device": "devices", "cell": "cells", "core": "cores", "entry": "entries", "admin": "admins", "config": "config",
	}
}

// revertRefs are the objects there are now. What was removed nobody lists.
func revertRefs(ctx context.Context, s *adminSession) ([]string, error) {
	out := []string{"config/mesh"}
	for kind, list := range map[string]refsFunc{
		"member": memberNoun().refs, "device": deviceNoun().refs, "cell": cellNoun().refs,
		"core": coreNoun().refs, "entry": entryNoun().refs, "admin": administratorNoun().refs,
	} {
		names, err := list(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			out = append(out, kind+"/"+n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// folderOfKind knows a kind by its name and by that of its folder.
func folderOfKind(kind string) string {
	for one, folder := range revertKinds() {
		if kind == one || kind == folder {
			return folder
		}
	}
	return ""
}

// objectAt reads one object out of a backup, by id or by the name it had.
func (b *backupSource) objectAt(ctx context.Context, s *adminSession, when, folder, ref string) (o backup.Object, commit repo.ID, err error) {
	h, err := b.open(ctx, s, 0)
	if err != nil {
		return o, "", err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if commit, err = h.resolve(ctx, s, when); err != nil {
		return o, "", err
	}
	tree, err := h.Tree(commit)
	if err != nil {
		return o, "", err
	}
	ids, err := b.keys(ctx, s, tree)
	if err != nil {
		return o, "", err
	}
	if len(ids) == 0 {
		return o, "", usagef("what is private of an object can be read only with an identity").hint("give --identity FILE or --passphrase")
	}
	if mesh.IsID(ref) || folder == "config" {
		o, err = backup.ObjectAt(ctx, tree, ids, h.opts, folder, ref)
	} else {
		o, err = h.byLabel(ctx, commit, ids, folder, ref)
	}
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		err = mesh.WithHint(err, cmp.Or(mesh.Hint(err), "see what there was: meshctl admin backup diff "+commit.Short()))
	case err == nil && o.Partial:
		err = fmt.Errorf("%s: backups had no recipient then, so a part of it was never written: %w", o.Name(), mesh.ErrConflict)
	}
	return o, commit, err
}

func (h *backupHistory) byLabel(ctx context.Context, commit repo.ID, ids []backup.Identity, folder, label string) (backup.Object, error) {
	state, err := h.read(ctx, commit, ids, false)
	if err != nil {
		return backup.Object{}, err
	}
	found := labelled(state.Objects, folder, label)
	if owner, name, ok := strings.Cut(label, "/"); ok && folder == "devices" && len(found) == 0 {
		for _, m := range labelled(state.Objects, "members", owner) {
			for _, d := range labelled(state.Objects, folder, name) {
				if stringIn(d.JSON, "member") == m.ID {
					found = append(found, d)
				}
			}
		}
	}
	kind := backup.KindOf(folder)
	switch len(found) {
	case 0:
		return backup.Object{}, fmt.Errorf("commit %s has no %s %q: %w", commit.Short(), kind, clean(label), mesh.ErrNotFound)
	case 1:
		return found[0], nil
	}
	var all []string
	for _, o := range found {
		all = append(all, kind+"/"+o.ID)
	}
	return backup.Object{}, mesh.WithHint(fmt.Errorf("commit %s has %d of the name %q: %w", commit.Short(), len(found), clean(label), mesh.ErrInvalid), "name one of "+strings.Join(all, ", "))
}

func labelled(objects []backup.Object, folder, label string) []backup.Object {
	var out []backup.Object
	for _, o := range objects {
		if o.Folder == folder && stringIn(o.JSON, "name") == label {
			out = append(out, o)
		}
	}
	return out
}

// revertTo shows what would change, asks, and does it unless the object was
// changed meanwhile.
func revertTo(ctx context.Context, s *adminSession, o backup.Object, commit repo.ID) error {
	req := admin.BackupRevertRequest{Object: backup.KindOf(o.Folder) + "/" + o.ID, JSON: o.JSON, Commit: string(commit), Check: true}
	seen, err := ask(ctx, s, admin.BackupRevert, req)
	if err != nil {
		return err
	}
	if seen.Same {
		if s.format.structured() {
			return s.format.print(s.out(), seen)
		}
		return s.say("%s is what it was at %s; nothing to do", req.Object, commit.Short())
	}
	if err := printReverted(s.err(), seen); err != nil {
		return err
	}
	if err := s.confirm(fmt.Sprintf("Bring %s back to what it was at %s?", req.Object, commit.Short())); err != nil {
		return err
	}
	req.Check, req.IfRev = false, seen.Rev
	done, err := ask(ctx, s, admin.BackupRevert, req)
	if err != nil {
		return err
	}
	if s.format.structured() {
		return s.format.print(s.out(), done)
	}
	return s.say("%s is again what it was at %s", req.Object, commit.Short())
}

// printReverted lists what differs before and after.
func printReverted(w io.Writer, r admin.BackupReverted) error {
	before, after := map[string]string{}, map[string]string{}
	flatten("", r.Before, before)
	flatten("", r.After, after)
	head := r.Object + " changes:"
	if r.Before == nil {
		head = r.Object + " is made again:"
	}
	if _, err := fmt.Fprintln(w, head); err != nil {
		return err
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		b, a := before[k], after[k]
		line := fmt.Sprintf("    %s: %s → %s", k, orText(b, "none"), orText(a, "none"))
		if r.Before == nil {
			line = fmt.Sprintf("    %s: %s", k, a)
		}
		if b == a {
			continue
		}
		if _, err := fmt.Fprintln(w, clean(line)); err != nil {
			return err
		}
	}
	return nil
}

// flatten writes nested members with dots.
func flatten(prefix string, v map[string]any, out map[string]string) {
	for k, e := range v {
		if sub, ok := e.(map[string]any); ok {
			flatten(prefix+k+".", sub, out)
			continue
		}
		text, err := json.Marshal(e)
		if err != nil {
			text = fmt.Append(nil, e) // it came as JSON, so it is never so
		}
		out[prefix+k] = string(text)
	}
}
