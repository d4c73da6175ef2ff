package adminsvc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// backupRemoteAdd checks the form of everything; whether the remote answers and
// takes a push the server that makes backups finds out, and the state says. In
// the place of a remote of the same URL the key or token of before stays when
// none is given: nobody may have another copy.
func (s *Service) backupRemoteAdd(ctx context.Context, req admin.BackupRemoteAddRequest) (admin.BackupView, error) {
	want := mesh.BackupRemote{
		Name: req.Name, URL: req.URL, Branch: cmp.Or(req.Branch, mesh.DefaultBackupBranch), User: req.User,
		Auth: req.Auth, KnownHosts: req.KnownHosts, Added: s.now(),
	}
	if !req.Replace {
		if err := checkRemote(want, mesh.Secret(req.Credential)); err != nil {
			return admin.BackupView{}, err
		}
	}
	return s.changeBackup(ctx, "backup.remote.add", func(b *mesh.BackupSettings) (err error) {
		r := want
		at := slices.IndexFunc(b.Remotes, func(x mesh.BackupRemote) bool { return x.Name == r.Name })
		if at >= 0 && !req.Replace {
			return mesh.WithHint(fmt.Errorf("admin: remote %s: %w", r.Name, mesh.ErrExists), "add --replace to put this one in its place")
		}
		if at >= 0 && b.Remotes[at].URL == r.URL {
			r.Settled = b.Remotes[at].Settled
			if req.Credential == "" && b.Remotes[at].Auth == r.Auth {
				r.Credential = b.Remotes[at].Credential
			}
		}
		if err := checkRemote(r, mesh.Secret(req.Credential)); err != nil {
			return err
		}
		if req.Credential != "" {
			if r.Credential, err = s.Store.Seal(store.BackupRemotePlace(r.Name), mesh.Secret(req.Credential)); err != nil {
				return err
			}
		}
		if at < 0 {
			b.Remotes = append(b.Remotes, r)
		} else {
			b.Remotes[at] = r
		}
		return nil
	})
}

// checkRemote checks what only the secret itself, or a parser of SSH, can tell. A
// secret that is sealed already was checked when it came.
func checkRemote(r mesh.BackupRemote, credential mesh.Secret) error {
	if r.Auth == mesh.BackupAuthSSHKey || r.Auth == mesh.BackupAuthToken {
		if credential == "" && r.Credential == "" {
			return mesh.WithHint(fmt.Errorf("admin: remote %s: a key or a token is missing: %w", mesh.Quotable(r.Name), mesh.ErrInvalid),
				"give --ssh-key FILE, --agent or --token-file FILE")
		}
		r.Credential = mesh.Sealed(mesh.SealedPrefix) // stands for what is sealed later
	} else if credential != "" {
		return fmt.Errorf("admin: remote %s: a secret that auth %s does not use: %w", mesh.Quotable(r.Name), r.Auth, mesh.ErrInvalid)
	}
	if err := r.Validate(); err != nil {
		return err
	}
	for _, l := range r.KnownHosts {
		if err := checkHostKey(l); err != nil {
			return err
		}
	}
	switch {
	case credential == "":
		return nil
	case r.Auth == mesh.BackupAuthSSHKey:
		_, err := publicSSH(credential)
		return err
	}
	return checkRemoteToken(credential)
}

func (s *Service) backupRemoteRemove(ctx context.Context, req admin.Ref) (admin.BackupView, error) {
	return s.changeBackup(ctx, "backup.remote.remove", func(b *mesh.BackupSettings) (err error) {
		b.Remotes, err = without("remote", b.Remotes, req.Ref, func(r mesh.BackupRemote) string { return r.Name })
		return err
	})
}

// backupRemoteSettle ends the alarm of a conflict that somebody has looked at.
func (s *Service) backupRemoteSettle(ctx context.Context, req admin.Ref) (admin.BackupView, error) {
	state, err := s.Store.BackupState.Get(ctx, store.BackupStateKey)
	if ignoreAbsent(err) != nil {
		return admin.BackupView{}, err
	}
	return s.changeBackup(ctx, "backup.remote.settle", func(b *mesh.BackupSettings) error {
		at := slices.IndexFunc(b.Remotes, func(r mesh.BackupRemote) bool { return r.Name == req.Ref })
		if at < 0 {
			_, err := without("remote", b.Remotes, req.Ref, func(r mesh.BackupRemote) string { return r.Name })
			return err
		}
		branch := state.Value.Remote(req.Ref).Conflict
		if branch == "" {
			return fmt.Errorf("admin: remote %s has no conflict: %w", req.Ref, mesh.ErrConflict)
		}
		b.Remotes[at].Settled = branch
		return nil
	})
}

func (s *Service) backupRecipientAdd(ctx context.Context, req admin.BackupRecipientAddRequest) (admin.BackupView, error) {
	r := mesh.BackupRecipient{Name: req.Name, Key: strings.TrimSpace(req.Key), Protected: req.Protected, Added: s.now()}
	err := r.Validate()
	if err != nil {
		return admin.BackupView{}, err
	}
	if r.Key, err = backup.ParseRecipient(r.Key); err != nil {
		return admin.BackupView{}, err
	}
	return s.changeBackup(ctx, "backup.recipient.add", func(b *mesh.BackupSettings) error {
		if slices.ContainsFunc(b.Recipients, func(x mesh.BackupRecipient) bool { return x.Name == r.Name }) {
			return mesh.WithHint(fmt.Errorf("admin: recipient %s: %w", r.Name, mesh.ErrExists),
				"choose another name; to replace a key, add the new one, then remove the old one")
		}
		b.Recipients = append(b.Recipients, r)
		return nil
	}, readersChanged(ctx, r.Name, "added: it reads every backup from now on, with all keys of the mesh"))
}

// readersChanged says aloud who can read backups: whoever adds himself has more
// than any role gives.
func readersChanged(ctx context.Context, name, what string) mesh.Event {
	return mesh.Event{
		Type: mesh.EventBackupReaders, Severity: mesh.Warning, Object: "backup/settings",
		Cause:  fmt.Sprintf("%s: recipient %s was %s", admin.CallerFrom(ctx).Actor, name, what),
		Advice: "if this was not meant: meshctl admin backup recipient list, and meshctl admin secrets rekey",
	}
}

func (s *Service) backupRecipientRemove(ctx context.Context, req admin.Ref) (admin.BackupView, error) {
	return s.changeBackup(ctx, "backup.recipient.remove", func(b *mesh.BackupSettings) (err error) {
		b.Recipients, err = without("recipient", b.Recipients, req.Ref, func(r mesh.BackupRecipient) string { return r.Name })
		return err
	}, readersChanged(ctx, mesh.Quotable(req.Ref), "removed: what was pushed before stays readable to it"))
}

// without is list but for the one of that name.
func without[T any](kind string, list []T, name string, nameOf func(T) string) ([]T, error) {
	at := slices.IndexFunc(list, func(x T) bool { return nameOf(x) == name })
	if at >= 0 {
		return slices.Delete(slices.Clone(list), at, at+1), nil
	}
	var known []string
	for _, x := range list {
		known = append(known, nameOf(x))
	}
	return nil, noSuch(kind, name, known)
}
