package mgmt

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/meshctl/meshctl/internal/durable"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	fileRestore = "restore.json"
	dirRestore  = "restore"
)

// restoreFile says that restore/ is complete and goes into its place.
type restoreFile struct {
	Mesh   mesh.ID       `json:"mesh"`
	Server mesh.ServerID `json:"server"`
}

func (x *restoreFile) parse(b []byte) error {
	if err := json.Unmarshal(b, x); err != nil {
		return err
	}
	_, err := mesh.ParseID(string(x.Mesh))
	_, err2 := mesh.ParseServerID(string(x.Server))
	return errors.Join(err, err2)
}

// restoredFiles are what a restore makes, in the order in which it is moved.
func restoredFiles() []string {
	return slices.Concat(keyFiles[:], []string{dirEtcd, etcdMarker, fileFounded, fileServer})
}

// finishRestore puts a restored folder in place if that was begun: restore.json
// is written once all of restore/ is complete and on the disk, and removed last.
//
//	restore/… ──▶ restore/…, restore.json ──▶ each file moved up ──▶ restore.json removed
//
// step, when given, is told how far it is. A restore that was cut off before it
// was complete is refused, so that no other mesh is founded beside it.
func (f *folder) finishRestore(step func(string) error) error {
	begun, err := f.has(fileRestore)
	if err != nil {
		return err
	}
	if !begun {
		return f.refuseUnrestored()
	}
	var x restoreFile
	if err := f.read(fileRestore, x.parse); err != nil {
		return err
	}
	for _, name := range restoredFiles() {
		if err := f.move(filepath.Join(dirRestore, name), name); err != nil {
			return err
		}
		if step != nil {
			if err := step("placed " + name); err != nil {
				return err
			}
		}
	}
	err = errors.Join(os.Remove(f.path(fileRestore)), durable.SyncDir(f.dir))
	if err == nil && step != nil {
		err = step("unmarked")
	}
	if err == nil {
		err = f.discardRestore()
	}
	if err != nil {
		return setupf("", "restore: %w", err)
	}
	return nil
}

// refuseUnrestored refuses a folder that holds an unfinished restore and no mesh.
func (f *folder) refuseUnrestored() error {
	left, err := f.has(dirRestore)
	if err != nil || !left {
		return err
	}
	known, err := f.has(fileServer)
	if err != nil {
		return err
	}
	if known {
		return f.discardRestore() // it was finished but for this
	}
	return setupf("nothing of it counts: run `meshctl mgmt restore` again, or give it up: rm -r "+f.path(dirRestore),
		"a restore into %s was cut off before it was complete", f.dir)
}

func (f *folder) discardRestore() error { return os.RemoveAll(f.path(dirRestore)) }

// refuseUsed refuses a folder that holds anything but what a restore has left.
func (f *folder) refuseUsed() error {
	files, err := os.ReadDir(f.dir)
	if err != nil {
		return setupf("", "look into data folder: %w", err)
	}
	for _, file := range files {
		if !slices.Contains([]string{fileLock, dirRestore, "lost+found"}, file.Name()) {
			return mesh.WithHint(fmt.Errorf("mgmt: restore: data folder %s is not empty: %s is in it: %w", f.dir, mesh.Quotable(file.Name()), mesh.ErrConflict),
				"restore into an empty folder; if a server of this mesh can still be started from this one, no restore is needed")
		}
	}
	return nil
}

// makePrivate makes a folder for this user alone.
func makePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return setupf("the user that runs the server has to own the data folder", "restore: %w", err)
	}
	return nil
}
