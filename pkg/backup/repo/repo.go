package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"golang.org/x/sys/unix"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// ID is a commit: its full hash in hex, or "" for none.
type ID string

// Short is what people read.
func (id ID) Short() string { return string(id[:min(len(id), 12)]) }

func (id ID) hash() plumbing.Hash { return plumbing.NewHash(string(id)) }

func idOf(h plumbing.Hash) ID {
	if h.IsZero() {
		return ""
	}
	return ID(h.String())
}

// Options of a repository; the zero value is usable.
type Options struct {
	// Mine says which paths are the backup's. Files elsewhere are kept, and
	// not read. Nil: all are.
	Mine   func(path string) bool
	Limits Limits
	// Git is the git program, needed for remotes that are local paths.
	// "" looks for it in PATH.
	Git string
}

// Repo is a bare local clone. It is for one goroutine at a time, and for one
// process.
type Repo struct {
	dir     string
	opts    Options
	store   *filesystem.Storage
	lock    *os.File
	aside   string       // where a damaged clone went, or ""
	temp    string       // a folder that goes with Close, or ""
	shallow map[ID]bool  // commits whose parents are not here
	step    func(string) // tests stop here; never nil
}

// Open opens the clone in a folder, or makes an empty one (0700). Leftovers of
// a process that was killed are removed; a damaged clone is set aside. It
// returns ErrConflict while another process has it open.
func Open(ctx context.Context, dir string, opts Options) (*Repo, error) {
	opts.Limits = opts.Limits.withDefaults()
	r := &Repo{dir: dir, opts: opts, step: func(string) {}}
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Repo) open(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(r.dir), 0o700); err != nil {
		return fmt.Errorf("repo: open: %w", err)
	}
	if err := r.acquire(); err != nil {
		return err
	}
	_, err := os.Stat(r.dir)
	if err == nil {
		err = r.recover(ctx)
		if err == nil || ReasonOf(err) != ReasonDamaged {
			return err
		}
		if r.aside, err = MoveAside(r.dir, time.Now()); err != nil {
			return err
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("repo: open: %w", err)
	}
	if err := create(r.dir); err != nil {
		return fmt.Errorf("repo: make %s: %w", r.dir, err)
	}
	r.load()
	return nil
}

// acquire takes the lock beside the folder. It ends with the process.
func (r *Repo) acquire() error {
	f, err := os.OpenFile(r.dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("repo: open: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("repo: open %s: another process has it open: %w", r.dir, mesh.ErrConflict), f.Close())
	}
	r.lock = f
	return nil
}

// load opens the object store, or opens it again after files changed.
func (r *Repo) load() {
	if r.store != nil {
		_ = r.store.Close() // it only read
	}
	r.store = filesystem.NewStorageWithOptions(osfs.New(r.dir, osfs.WithBoundOS()),
		cache.NewObjectLRU(16*cache.MiByte), filesystem.Options{MaxOpenDescriptors: 64})
	r.shallow = make(map[ID]bool)
	if hs, err := r.store.Shallow(); err == nil {
		for _, h := range hs {
			r.shallow[idOf(h)] = true
		}
	}
}

// create makes an empty repository, whole or not at all.
func create(dir string) error {
	tmp := dir + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "refs/remotes"} {
		if err := os.MkdirAll(filepath.Join(tmp, d), 0o700); err != nil {
			return err
		}
	}
	files := map[string]string{
		"HEAD":   "ref: " + headRef + "\n",
		"config": "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return os.Rename(tmp, dir)
}

// Close lets go of the clone.
func (r *Repo) Close() error {
	var errs []error
	if r.store != nil {
		errs = append(errs, r.store.Close())
		r.store = nil
	}
	if r.lock != nil {
		errs = append(errs, r.lock.Close())
		r.lock = nil
	}
	if r.temp != "" {
		errs = append(errs, os.RemoveAll(r.temp))
	}
	return errors.Join(errs...)
}

// SetAside says where Open moved a clone that was damaged, "" if it was not.
func (r *Repo) SetAside() string { return r.aside }

// Head is the newest commit, "" while there is none.
func (r *Repo) Head() ID { return r.ref(headRef) }

// read returns an object of at most the limit, whose content is what its name says.
func (r *Repo) read(t plumbing.ObjectType, h plumbing.Hash) ([]byte, error) {
	o, err := r.store.EncodedObject(t, h)
	if err != nil {
		return nil, damaged(err, "read %s %s", t, h)
	}
	if o.Size() > int64(r.opts.Limits.File) {
		return nil, faultf(ReasonLimit, "read %s %s: %d bytes: at most %d are read: %w", t, h, o.Size(), r.opts.Limits.File, mesh.ErrInvalid)
	}
	rd, err := o.Reader()
	if err != nil {
		return nil, damaged(err, "read %s %s", t, h)
	}
	data := make([]byte, o.Size())
	_, err = io.ReadFull(rd, data)
	if err = errors.Join(err, rd.Close()); err != nil {
		return nil, damaged(err, "read %s %s", t, h)
	}
	if plumbing.ComputeHash(t, data) != h {
		return nil, damaged(errors.New("the content is another"), "read %s %s", t, h)
	}
	return data, nil
}

// has says whether the object is here.
func (r *Repo) has(h plumbing.Hash) bool { return r.store.HasEncodedObject(h) == nil }

// damaged says that the local clone is, unless it is the disk or the system
// that failed.
func damaged(err error, format string, args ...any) error {
	err = fmt.Errorf("repo: "+format+": %w", append(args, err)...)
	switch ReasonOf(err) {
	case ReasonOther, ReasonMissing:
		return &Fault{Reason: ReasonDamaged, Err: fmt.Errorf("%w: %w", err, mesh.ErrUnavailable)}
	default:
		return err
	}
}
