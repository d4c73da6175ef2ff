package adminsvc

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// backupGet shows how backups are made; before the first change nothing is.
func (s *Service) backupGet(ctx context.Context, _ admin.None) (admin.BackupView, error) {
	v := admin.BackupView{Mesh: s.Mesh, Root: hex.EncodeToString(s.RootHash[:])}
	set, err := s.Store.Backup.Get(ctx, store.BackupKey)
	if ignoreAbsent(err) != nil {
		return v, err
	}
	state, err := s.Store.BackupState.Get(ctx, store.BackupStateKey)
	if ignoreAbsent(err) != nil {
		return v, err
	}
	v.State = state.Value
	v.Settings, v.Warnings = s.shownBackup(set.Value)
	v.Warnings = slices.Concat(backupWarnings(set.Value, state.Value, s.now()), v.Warnings)
	return v, nil
}

// shownBackup is what may be shown of the settings, and which of their secrets
// cannot be opened.
func (s *Service) shownBackup(b mesh.BackupSettings) (admin.BackupSettingsView, []string) {
	b = b.WithDefaults()
	v := admin.BackupSettingsView{
		Recipients: []admin.BackupRecipientView{}, Remotes: []admin.BackupRemoteView{},
		Every: b.Every, Heartbeat: b.Heartbeat, ProveEvery: b.ProveEvery, TotalsEvery: b.TotalsEvery,
		PlaintextObjects: b.PlaintextObjects, SignPublic: b.SignPublic, Run: b.Run, Verify: b.Verify,
	}
	if b.Copies.Dir != "" {
		v.Copies = b.Copies
	}
	for _, r := range b.Recipients {
		v.Recipients = append(v.Recipients, admin.BackupRecipientView{Name: r.Name, Key: r.Key, Protected: r.Protected != "", Added: r.Added})
	}
	var bad []string
	for _, r := range b.Remotes {
		public, err := s.publicOf(r)
		if err != nil {
			bad = append(bad, fmt.Sprintf("the key of remote %s cannot be used: %s", r.Name, mesh.Plain(err)))
		}
		v.Remotes = append(v.Remotes, admin.BackupRemoteView{
			Name: r.Name, URL: r.URL, Branch: r.Branch, User: r.User, Auth: r.Auth,
			KnownHosts: r.KnownHosts, Public: public, Added: r.Added, Settled: r.Settled,
		})
	}
	return v, bad
}

// publicOf is the public half of a remote's SSH key, "" when it has none.
func (s *Service) publicOf(r mesh.BackupRemote) (string, error) {
	if r.Auth != mesh.BackupAuthSSHKey {
		return "", nil
	}
	key, err := s.Store.Unseal(store.BackupRemotePlace(r.Name), r.Credential)
	if err != nil {
		return "", err
	}
	return publicSSH(key)
}

// changeBackup changes the settings in one audited transaction, in which secrets
// may be sealed, and checks the outcome as a whole. The events go with it.
func (s *Service) changeBackup(ctx context.Context, action string, fn func(*mesh.BackupSettings) error, events ...mesh.Event) (admin.BackupView, error) {
	defer s.Store.Sealing()()
	checked := func(b *mesh.BackupSettings) error {
		if err := fn(b); err != nil {
			return err
		}
		return b.Validate()
	}
	err := s.change(ctx, action, func(tx *store.Tx) error {
		for _, e := range events {
			if err := tx.Event(e); err != nil {
				return err
			}
		}
		err := store.Update(tx, s.Store.Backup, store.BackupKey, checked)
		if !errors.Is(err, mesh.ErrNotFound) || errors.Is(err, errNoSuch) {
			return err
		}
		var b mesh.BackupSettings
		if err := checked(&b); err != nil {
			return err
		}
		return store.Create(tx, s.Store.Backup, store.BackupKey, b)
	})
	if err != nil {
		return admin.BackupView{}, err
	}
	return s.backupGet(ctx, admin.None{})
}

// errNoSuch tells a remote or recipient that is not there from settings that
// are not.
var errNoSuch = errors.New("no such name")

func noSuch(kind, name string, known []string) error {
	err := fmt.Errorf("admin: %s %q: %w: %w", kind, mesh.Quotable(name), errNoSuch, mesh.ErrNotFound)
	if like := mesh.Nearest(name, known); len(like) > 0 {
		return mesh.WithHint(err, "did you mean "+like[0]+"?")
	}
	return mesh.WithHint(err, "see `meshctl admin backup "+kind+" list`")
}

func (s *Service) backupRun(ctx context.Context, _ admin.None) (admin.BackupView, error) {
	return s.changeBackup(ctx, "backup.run", func(b *mesh.BackupSettings) error {
		if len(b.Remotes) == 0 {
			return errNoRemote("run")
		}
		b.Run++
		return nil
	})
}

func (s *Service) backupVerify(ctx context.Context, _ admin.None) (admin.BackupView, error) {
	return s.changeBackup(ctx, "backup.verify", func(b *mesh.BackupSettings) error {
		if len(b.Remotes) == 0 {
			return errNoRemote("verify")
		}
		b.Verify++
		return nil
	})
}

func errNoRemote(verb string) error {
	return mesh.WithHint(fmt.Errorf("admin: backup %s: no remote is set, so there is nowhere to push to: %w", verb, mesh.ErrConflict),
		"add one first: meshctl admin backup remote add NAME URL")
}

func (s *Service) backupSet(ctx context.Context, req admin.BackupSetRequest) (admin.BackupView, error) {
	return s.changeBackup(ctx, "backup.set", func(b *mesh.BackupSettings) error {
		set(&b.Every, req.Every)
		set(&b.Heartbeat, req.Heartbeat)
		set(&b.ProveEvery, req.ProveEvery)
		set(&b.TotalsEvery, req.TotalsEvery)
		set(&b.PlaintextObjects, req.PlaintextObjects)
		set(&b.Copies.Dir, req.CopiesDir)
		set(&b.Copies.Every, req.CopiesEvery)
		set(&b.Copies.Keep, req.CopiesKeep)
		if req.SignKey == nil {
			return nil
		}
		return s.setSignKey(b, mesh.Secret(*req.SignKey))
	})
}

func set[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

func (s *Service) setSignKey(b *mesh.BackupSettings, key mesh.Secret) (err error) {
	if key == "" {
		b.SignKey, b.SignPublic = "", ""
		return nil
	}
	if b.SignPublic, err = publicSSH(key); err != nil {
		return err
	}
	b.SignKey, err = s.Store.Seal(store.BackupSignPlace(), key)
	return err
}

// badAfter is how many failures in a row are worth a warning.
const badAfter = 3

// backupWarnings are about what would keep a backup from being of use.
func backupWarnings(b mesh.BackupSettings, st mesh.BackupState, now time.Time) []string {
	if len(b.Remotes) == 0 {
		return append(recipientWarnings(b), "no remote is set: nothing is backed up: meshctl admin backup remote add NAME URL")
	}
	out := recipientWarnings(b)
	if st.Held != "" {
		out = append(out, "no backup is made now: "+st.Held)
	}
	for _, r := range b.Remotes {
		have := st.Remote(r.Name)
		if have.Failures >= badAfter {
			out = append(out, fmt.Sprintf("remote %s failed %d times in a row: %s", r.Name, have.Failures, have.Reason))
		} else if have.Pushed.IsZero() && now.Sub(r.Added) > time.Minute {
			out = append(out, fmt.Sprintf("remote %s holds no backup yet", r.Name))
		}
		if have.Conflict != "" && have.Conflict != r.Settled {
			out = append(out, fmt.Sprintf("somebody else changed files of ours in remote %s: what they pushed is kept in its branch %s; look at it, then: meshctl admin backup remote settle %s",
				r.Name, have.Conflict, r.Name))
		}
	}
	switch {
	case st.Proof.At.IsZero():
		out = append(out, "no backup was ever restored to prove that it can be: meshctl admin backup verify")
	case st.Proof.Problem != "":
		out = append(out, "the backup did not restore when that was last tried: "+st.Proof.Problem)
	}
	if st.Copy.Problem != "" {
		out = append(out, "the last full copy failed: "+st.Copy.Problem)
	}
	return out
}

// noRecipientWarning is said wherever it matters, in the same words.
const noRecipientWarning = "NO RECIPIENT IS SET: backups hold no names, no secrets and no keys; a mesh restored from them needs a new root, and everybody and everything has to join again: meshctl admin backup recipient new NAME --out FILE"

func recipientWarnings(b mesh.BackupSettings) []string {
	if len(b.Recipients) > 0 {
		return nil
	}
	return []string{noRecipientWarning}
}
