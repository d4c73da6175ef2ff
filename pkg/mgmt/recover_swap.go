package mgmt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/meshctl/meshctl/internal/durable"
)

const (
	fileRecover = "recover.json"
	dirRecover  = "recover"
	// asidePrefix begins the name under which etcd's data from before is kept.
	asidePrefix = "etcd-before-recover-"
)

// recoverFile says that recover/etcd is complete and takes the place of etcd,
// which is kept as Aside.
type recoverFile struct {
	Aside string `json:"aside"`
}

func (x *recoverFile) parse(b []byte) error {
	if err := json.Unmarshal(b, x); err != nil {
		return err
	}
	if !strings.HasPrefix(x.Aside, asidePrefix) || filepath.Base(x.Aside) != x.Aside {
		return errors.New("it names no folder to keep etcd's data in")
	}
	return nil
}

// finishRecovery puts etcd's data in place if that was begun: recover.json is
// written once what takes the place is complete, and removed last.
//
//	etcd, recover/etcd ──▶ aside, recover/etcd ──▶ aside, etcd ──▶ recover.json removed
//
// step, when given, is told how far it is.
func (f *folder) finishRecovery(step func(string) error) error {
	begun, err := f.has(fileRecover)
	if err != nil || !begun {
		return err
	}
	var x recoverFile
	if err := f.read(fileRecover, x.parse); err != nil {
		return err
	}
	if step == nil {
		step = func(string) error { return nil }
	}
	made := filepath.Join(dirRecover, dirEtcd)
	waits, err := f.has(made)
	if err != nil {
		return err
	}
	if waits {
		if err := f.move(dirEtcd, x.Aside); err != nil {
			return err
		}
		if err := step("aside"); err != nil {
			return err
		}
		if err := f.move(made, dirEtcd); err != nil {
			return err
		}
	}
	if err := step("placed"); err != nil {
		return err
	}
	err = errors.Join(os.Remove(f.path(fileRecover)), durable.SyncDir(f.dir))
	if err == nil {
		err = f.discardRecovery()
	}
	if err != nil {
		return setupf("", "recover: %w", err)
	}
	return nil
}

// move renames what is there to where nothing is, and makes it last.
func (f *folder) move(from, to string) error {
	there, err := f.has(from)
	if err != nil || !there {
		return err
	}
	err = os.Rename(f.path(from), f.path(to))
	if err == nil {
		err = errors.Join(durable.SyncDir(f.dir), durable.SyncDir(filepath.Dir(f.path(from))))
	}
	if err != nil {
		return setupf("the user that runs the server has to own the data folder", "recover: %w", err)
	}
	return nil
}

func (f *folder) discardRecovery() error { return os.RemoveAll(f.path(dirRecover)) }

// mine refuses a folder of another user, who could not read what is made in it:
// root may write anywhere. command is what was begun.
func (f *folder) mine(command string) error {
	var st unix.Stat_t
	if err := unix.Stat(f.dir, &st); err != nil {
		return setupf("", "look at data folder: %w", err)
	}
	if int(st.Uid) != os.Geteuid() {
		return setupf(fmt.Sprintf("run it as that user, with the same flags: setpriv --reuid %d --regid %d --clear-groups meshctl mgmt %s", st.Uid, st.Gid, command),
			"data folder %s belongs to user %d, not to this one (%d)", f.dir, st.Uid, os.Geteuid())
	}
	return nil
}

// copyPrivate copies a folder of files, for this user alone.
func copyPrivate(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is not a regular file", path)
		}
		return copyFile(path, filepath.Join(to, rel))
	})
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() // only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// syncTree makes all below dir last.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return durable.SyncDir(path) // a file too
	})
}
