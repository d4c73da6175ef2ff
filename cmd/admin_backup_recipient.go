package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func recipientNoun() noun[admin.BackupRecipientView] {
	name := func(r admin.BackupRecipientView) string { return r.Name }
	return noun[admin.BackupRecipientView]{
		one: "recipient", many: "recipients",
		empty: "without one backups hold nothing private and no keys: meshctl admin backup recipient new NAME --out FILE",
		id:    name, label: name,
		refs: backupNames(func(v admin.BackupView) (out []string) {
			for _, r := range v.Settings.Recipients {
				out = append(out, r.Name)
			}
			return out
		}),
		columns: []column[admin.BackupRecipientView]{
			text("RECIPIENT", name),
			text("OPENED BY", func(r admin.BackupRecipientView) string {
				switch {
				case r.Protected:
					return "passphrase"
				case strings.HasPrefix(r.Key, "ssh-"):
					return "SSH key"
				}
				return "age identity"
			}),
			{"AGE", func(r admin.BackupRecipientView, now time.Time) string { return age(r.Added, now) }},
			text("KEY", func(r admin.BackupRecipientView) string { return r.Key }),
		},
	}
}

func newBackupRecipient(a *adminCLI) *cobra.Command {
	n := recipientNoun()
	return group("recipient", "Who can read what is private in backups",
		newRecipientNew(a),
		newRecipientAdd(a),
		newBackupList(a, n, func(v admin.BackupView) []admin.BackupRecipientView { return v.Settings.Recipients }),
		newRecipientRemove(a, n),
	)
}

func newRecipientNew(a *adminCLI) *cobra.Command {
	var out, passFile string
	var passphrase bool
	c := &cobra.Command{
		Use: "new NAME", Short: "Make an identity here and back up to it", Args: takes("NAME"), ValidArgsFunction: completeArgs(a),
		Long: `Make an age identity on this machine and back up to it. Only its public half goes to
the servers. The file is needed to restore: keep it where the servers are not.

With --passphrase the identity is encrypted with a passphrase, and lies in that form in
every backup too, so that the passphrase alone restores; --out may then be left out.`,
		Example: `  meshctl admin backup recipient new safe --out safe.key
  meshctl admin backup recipient new words --passphrase`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := mesh.CheckBackupName(args[0]); err != nil {
				return err
			}
			if out == "" && !passphrase {
				return usagef("nowhere to put the identity").hint("give --out FILE, or --passphrase to keep it in the backups")
			}
			if passFile != "" && !passphrase {
				return usagef("--passphrase-file serves --passphrase only")
			}
			if err := absentFile(out); err != nil {
				return err
			}
			k, err := newBackupKey(ctx, s, passphrase, passFile)
			if err != nil {
				return err
			}
			return registerKey(ctx, s, args[0], out, k)
		}),
	}
	c.Flags().StringVar(&out, "out", "", "file to write the identity to; it must not exist")
	c.Flags().BoolVar(&passphrase, "passphrase", false, "encrypt the identity with a passphrase, which then restores alone")
	c.Flags().StringVar(&passFile, "passphrase-file", "", "file with that passphrase, mode 0600 (default: ask on the terminal)")
	return c
}

// backupKey is an identity that was made here.
type backupKey struct {
	public    string
	private   mesh.Secret // for the file
	protected string      // for the servers; "" without a passphrase
}

func newBackupKey(ctx context.Context, s *adminSession, passphrase bool, file string) (backupKey, error) {
	if !passphrase {
		public, identity, err := backup.NewVerifyIdentity()
		text := fmt.Sprintf("# created: %s\n# public key: %s\n%s\n", s.now.UTC().Format(time.RFC3339), public, identity.Reveal())
		return backupKey{public: public, private: mesh.Secret(text)}, err
	}
	secret, err := newPassphrase(ctx, file)
	if err != nil {
		return backupKey{}, err
	}
	public, protected, err := backup.NewProtected(secret)
	return backupKey{public, mesh.Secret(protected), protected}, err
}

// newPassphrase asks twice, since nobody sees what was typed.
func newPassphrase(ctx context.Context, file string) (mesh.Secret, error) {
	if file != "" {
		return readSecretFile(ctx, "--passphrase-file", file, os.Stdin)
	}
	if !isTerminal(os.Stdin) {
		return "", usagef("a passphrase is needed, and there is no terminal to ask on").hint("give --passphrase-file (mode 0600)")
	}
	first, err := askSecret(ctx, os.Stdin, os.Stderr, fmt.Sprintf("Passphrase, at least %d characters: ", backup.MinPassphrase))
	if err != nil {
		return "", err
	}
	again, err := askSecret(ctx, os.Stdin, os.Stderr, "Once more: ")
	if err == nil && again != first {
		err = fmt.Errorf("the two differ; nothing was made: %w", mesh.ErrInvalid)
	}
	return first, err
}

func absentFile(file string) error {
	if file == "" {
		return nil
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, usagef("--out %s: exists already", file).hint("name another file; an identity is never overwritten"))
	}
	return nil
}

// registerKey writes the file first: a recipient whose identity nobody has would
// be worse than none. The file goes again when the servers surely did not take it.
func registerKey(ctx context.Context, s *adminSession, name, file string, k backupKey) error {
	if file != "" {
		if err := writeIdentity(file, k.private); err != nil {
			return err
		}
	}
	v, err := ask(ctx, s, admin.BackupRecipientAdd, admin.BackupRecipientAddRequest{Name: name, Key: k.public, Protected: k.protected})
	if err != nil && file != "" {
		if kind := mesh.Kind(err); kind == nil || kind == mesh.ErrUnavailable {
			return mesh.WithHint(fmt.Errorf("%w; the identity in %s is kept, since the servers may have taken its public half", err, file),
				"see `meshctl admin backup recipient list`; if it is not there: meshctl admin backup recipient add "+name+" "+k.public)
		}
		return errors.Join(err, os.Remove(file))
	}
	if err != nil {
		return err
	}
	if err := saidBackup(s, v, "recipient %s added: %s", name, k.public); err != nil || s.format.structured() {
		return err
	}
	return s.say("%s", whatToKeep(file, k.protected != ""))
}

func whatToKeep(file string, protected bool) string {
	switch {
	case !protected:
		return "keep " + file + " where the servers are not: whoever has it reads every backup, and without it none restores\nthen: meshctl admin backup run --wait"
	case file == "":
		return "keep the passphrase where the servers are not: it alone reads every backup, and without it none restores\nthen: meshctl admin backup run --wait"
	}
	return "keep the passphrase where the servers are not; " + file + " and every backup hold the identity that it opens\nthen: meshctl admin backup run --wait"
}

func writeIdentity(file string, text mesh.Secret) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	_, err = f.WriteString(text.Reveal())
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("--out %s: %w", file, err), os.Remove(file))
	}
	return nil
}

func newRecipientAdd(a *adminCLI) *cobra.Command {
	return &cobra.Command{
		Use: "add NAME KEY|FILE", Short: "Back up to a public key as well", Args: takes("NAME", "KEY|FILE"),
		Long: `Back up to a public key as well: age1…, ssh-ed25519 … or ssh-rsa …, or a file with one
such line. Nobody proves here that the private half exists: try it with
"meshctl admin backup verify --from URL --identity FILE".`,
		Example: `  meshctl admin backup recipient add laptop ~/.ssh/id_ed25519.pub`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			key := args[1]
			if !strings.HasPrefix(key, "age1") && !strings.HasPrefix(key, "ssh-") && !strings.HasPrefix(key, "AGE-SECRET-KEY-") {
				var err error
				if key, err = publicKeyIn(key); err != nil {
					return err
				}
			}
			if _, err := backup.ParseRecipient(key); err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.BackupRecipientAdd, admin.BackupRecipientAddRequest{Name: args[0], Key: key})
			return orSaid(s, v, err, "recipient "+clean(args[0])+" added; everything is encrypted anew with the next backup")
		}),
	}
}

// publicKeyIn reads the one line of a file that is no comment.
func publicKeyIn(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", mesh.WithHint(fmt.Errorf("KEY|FILE: %w", err), "give a key (age1…, ssh-ed25519 …, ssh-rsa …) or a file with one")
	}
	defer f.Close() // only read
	text := make([]byte, maxKeyFile)
	n, err := f.Read(text)
	if err != nil {
		return "", fmt.Errorf("KEY|FILE: %s: %w", file, err)
	}
	var keys []string
	for line := range strings.Lines(string(text[:n])) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			keys = append(keys, line)
		}
	}
	if len(keys) != 1 || strings.HasPrefix(keys[0], "-----BEGIN") {
		return "", mesh.WithHint(fmt.Errorf("KEY|FILE: %s: want one line with one public key: %w", file, mesh.ErrInvalid), "give the .pub file of an SSH key, or the public key of an age identity")
	}
	return keys[0], nil
}

func newRecipientRemove(a *adminCLI, n noun[admin.BackupRecipientView]) *cobra.Command {
	return &cobra.Command{
		Use: "remove RECIPIENT", Aliases: []string{"rm"}, Short: "Stop backing up to a recipient", Args: takes(n.arg()), ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Stop backing up to a recipient. What was pushed until now stays readable to it: Git
keeps history. When its identity is in wrong hands, replace the secrets too
(meshctl admin secrets rekey, new device secrets) and delete the old repositories.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			v, err := ask(ctx, s, admin.BackupGet, admin.None{})
			if err != nil {
				return err
			}
			d := deed{use: "remove", danger: "What was pushed until now stays readable to it."}
			if all := v.Settings.Recipients; len(all) == 1 && all[0].Name == args[0] {
				d.danger += " IT IS THE LAST ONE: from now on backups hold no names, no secrets and no keys, and no full copies are made."
			}
			if s.yes {
				fmt.Fprintln(s.err(), "warning:", d.danger)
			}
			if err := s.confirmDeed(d, n.one, args[0]); err != nil {
				return err
			}
			v, err = ask(ctx, s, admin.BackupRecipientRemove, admin.Ref{Ref: args[0]})
			return orSaid(s, v, err, "recipient "+clean(args[0])+" removed; what was pushed until now stays readable to it")
		}),
	}
}
