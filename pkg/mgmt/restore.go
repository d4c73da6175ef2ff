package mgmt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/meshctl/meshctl/internal/durable"
	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Restoration makes a mesh of one server out of a backup, in a data folder that
// is empty. All is verified before anything is written, and all is made in a
// folder inside it, which goes into its place when it is complete.
type Restoration struct {
	Config Config
	// Read verifies the whole backup and returns what is in it, or every fault.
	Read func(context.Context) (*backup.State, error)
	// Root is the SHA-256 of the root certificate's DER.
	Root [32]byte
	// From names the backup for people and for audit: a commit.
	From string
	// Seen is the latest epoch that is known of; that of the backup counts anyway.
	Seen int64
	// Collect is how long the mesh waits, before it serves, for the revocations that
	// its nodes keep. Zero: mesh.DefaultCollect.
	Collect mesh.Duration
	// Passphrase is asked for the root passphrase, once.
	Passphrase func(context.Context) (mesh.Secret, error)
	// Confirm is shown what would be done; its error ends it, with nothing written.
	Confirm func(context.Context, RestorePlan) error
	// Progress, when set, is told of work that takes long; of is 0 when it is not
	// known how much there is.
	Progress func(what string, done, of int)
	Log      *slog.Logger // nil: none

	// step, in tests, ends it where it has got to.
	step func(string) error
}

// Run returns which server of which mesh the folder is now. It first finishes a
// restore that was cut off when it was complete, and does no other then.
func (x *Restoration) Run(ctx context.Context) (mesh.Identity, error) {
	x.Log = cmp.Or(x.Log, slog.New(slog.DiscardHandler))
	if err := x.Config.Validate(); err != nil {
		return mesh.Identity{}, setup(err)
	}
	f, err := openFolder(x.Config.Dir)
	if err != nil {
		return mesh.Identity{}, err
	}
	defer f.close()
	if err := f.mine("restore"); err != nil {
		return mesh.Identity{}, err
	}
	complete, err := f.has(fileRestore)
	if err != nil {
		return mesh.Identity{}, err
	}
	if !complete {
		if err := x.make(ctx, f); err != nil {
			return mesh.Identity{}, errors.Join(err, f.discardUnmarked())
		}
	}
	var made restoreFile
	if err := f.read(fileRestore, made.parse); err != nil {
		return mesh.Identity{}, err
	}
	return mesh.Identity{Mesh: made.Mesh, Role: mesh.RoleMgmt, ID: string(made.Server)}, f.finishRestore(x.step)
}

// make verifies the backup, asks, and makes restore/ complete.
func (x *Restoration) make(ctx context.Context, f *folder) error {
	if err := f.refuseUsed(); err != nil {
		return err
	}
	x.tell("reading and verifying the backup", 0, 0)
	state, err := x.Read(ctx)
	if err != nil {
		return err
	}
	r, err := x.examine(ctx, state)
	if err != nil {
		return err
	}
	if err := nobodyAnswers(ctx, r.plan.Lost, r.alive); err != nil {
		return err
	}
	if err := x.Confirm(ctx, r.plan); err != nil {
		return err
	}
	if err := f.discardRestore(); err != nil {
		return setupf("", "restore: %w", err)
	}
	if err := r.write(ctx, &folder{dir: f.path(dirRestore)}); err != nil {
		return err
	}
	if err := x.reached("complete"); err != nil {
		return err
	}
	if err := f.writeJSON(fileRestore, restoreFile{Mesh: r.keys.Mesh, Server: r.keys.Server}); err != nil {
		return err
	}
	return x.reached("marked")
}

// discardUnmarked removes what a restore that failed has made, unless it is
// complete. The folder is empty again then.
func (f *folder) discardUnmarked() error {
	if complete, err := f.has(fileRestore); err != nil || complete {
		return err
	}
	return f.discardRestore()
}

func (x *Restoration) tell(what string, done, of int) {
	if x.Progress != nil {
		x.Progress(what, done, of)
	}
}

func (x *Restoration) reached(step string) error {
	if x.step == nil {
		return nil
	}
	return x.step(step)
}

// restoring is one restore, from a backup that was verified.
type restoring struct {
	*Restoration
	state *backup.State
	root  *ca.Root
	keys  keys
	files map[string][]byte // key files but the data keys'
	plan  RestorePlan
	made  time.Time
}

// write makes all files of the data folder in f.
func (r *restoring) write(ctx context.Context, f *folder) error {
	if err := makePrivate(f.dir); err != nil {
		return err
	}
	if err := store.ReplaceDataKeys(f.path(fileDataKey), r.keys.data...); err != nil {
		return setup(err)
	}
	for _, name := range keyFiles[1:] {
		if err := f.write(name, r.files[name]); err != nil {
			return err
		}
	}
	if err := f.writeJSON(fileServer, r.keys.serverFile); err != nil {
		return err
	}
	if err := r.reached("keys"); err != nil {
		return err
	}
	k, err := f.load() // what serve will read
	if err != nil {
		return err
	}
	if err := r.fill(ctx, f, k); err != nil {
		return err
	}
	if err := f.writeJSON(fileFounded, foundedFile{At: r.made}); err != nil {
		return err
	}
	r.tell("writing it to the disk", 0, 0)
	if err := errors.Join(syncTree(f.dir), durable.SyncDir(filepath.Dir(f.dir))); err != nil {
		return setupf("", "restore: %w", err)
	}
	return nil
}

// fill runs etcd on an empty folder and makes it hold the backup.
func (r *restoring) fill(ctx context.Context, f *folder, k *keys) error {
	part, err := newEtcdPart(r.Config, f, k, r.Log, time.Now)
	if err != nil {
		return err
	}
	part.member.PeerURL, part.member.ClientURL = "https://127.0.0.1:0", "https://127.0.0.1:0"
	err = part.during(ctx, func(ctx context.Context) error { return r.rewrite(ctx, part, f, k) })
	if err != nil {
		return fmt.Errorf("mgmt: restore: %w", err)
	}
	return nil
}
