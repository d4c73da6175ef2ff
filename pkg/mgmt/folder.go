package mgmt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshctl/meshctl/internal/durable"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// ErrSetup marks errors that no restart mends: somebody has to look at the
// configuration or the data folder. The command line exits with 78.
var ErrSetup = errors.New("setup")

// setupError carries ErrSetup without putting a word into the text.
type setupError struct{ error }

func (e setupError) Unwrap() []error { return []error{e.error, ErrSetup} }

func setup(err error) error {
	if err == nil {
		return nil
	}
	return setupError{err}
}

func setupf(hint, format string, args ...any) error {
	return setup(mesh.WithHint(fmt.Errorf("mgmt: "+format, args...), hint))
}

// The data folder. All of it is private to the user that runs the server.
//
//	server.json       which server of which mesh this is; written last of the keys
//	formation.json    how far it has come on its way into a mesh of several
//	founded.json      that etcd holds the mesh; written once it does
//	root.crt          certificate of the root
//	root.sealed       its key, under the passphrase
//	intermediate.crt  certificate of this server's issuer
//	intermediate.key  its key, on this server alone
//	etcd-ca.pem       etcd's own CA with its key, the same on every server
//	epoch.json        the latest epoch of the mesh that is known, as the root signed it
//	data.key          opens secret fields in etcd, the same on every server
//	node/             this server's own identity
//	etcd-tls/         etcd's certificates, made at each start
//	etcd/             etcd's data
//	backup/           the clone that backups are pushed from; can be made again
//	recover.json      that recover has begun to put etcd's data in place
//	recover/          what recover works on; nothing of it counts before that
//	restore.json      that restore has begun to put all of this in place
//	restore/          what restore makes; nothing of it counts before that
const (
	fileServer          = "server.json"
	fileFounded         = "founded.json"
	fileRootCert        = "root.crt"
	fileRootSealed      = "root.sealed"
	fileIntermediate    = "intermediate.crt"
	fileIntermediateKey = "intermediate.key"
	fileEtcdCA          = "etcd-ca.pem"
	fileDataKey         = "data.key"
	fileEpoch           = "epoch.json"
	fileLock            = "lock"
	dirNode             = "node"
	dirEtcdTLS          = "etcd-tls"
	dirEtcd             = "etcd"
	dirBackup           = "backup"
)

// keyFiles are all that founding writes before fileServer, in that order.
var keyFiles = [...]string{fileDataKey, fileEtcdCA, fileRootSealed, fileRootCert, fileIntermediateKey, fileIntermediate}

// folder is the data folder, held by this process alone.
type folder struct {
	dir  string
	lock *os.File
}

// openFolder makes the folder when there is none, refuses one that others can
// look into, and locks it.
func openFolder(dir string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, setupf("make it yourself, owned by the user that runs the server, mode 0700", "make data folder: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, setupf("", "look at data folder: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, setupf("chmod 700 "+dir, "data folder %s is open to others (mode %04o)", dir, info.Mode().Perm())
	}
	lock, err := os.OpenFile(filepath.Join(dir, fileLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, setupf("the user that runs the server has to own the data folder", "open data folder: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, setupf("stop it first, or give this server a folder of its own", "data folder %s is in use by another server", dir)
	}
	return &folder{dir: dir, lock: lock}, nil
}

// close gives the folder free.
func (f *folder) close() { f.lock.Close() } // nothing was written to the lock

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) has(name string) (bool, error) {
	_, err := os.Lstat(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, setupf("", "look into data folder: %w", err)
	}
	return true, nil
}

// read returns what parse makes of the file. A file that is open to others,
// missing or damaged is an error that names it.
func (f *folder) read(name string, parse func([]byte) error) error {
	path := f.path(name)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return setupf("restore the data folder from a backup, or replace this server", "file %s is missing", path)
	case err != nil:
		return setupf("", "read %s: %w", path, err)
	case info.Mode().Perm()&0o077 != 0:
		return setupf("chmod 600 "+path+"; if others could read it, treat what is in it as known to them",
			"file %s is open to others (mode %04o)", path, info.Mode().Perm())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return setupf("the user that runs the server has to own the data folder", "read %s: %w", path, err)
	}
	if err := parse(b); err != nil {
		return setupf("restore the file from a backup, or replace this server", "file %s is damaged: %w", path, err)
	}
	return nil
}

func (f *folder) write(name string, data []byte) error {
	if err := durable.Write(f.path(name), data); err != nil {
		return setupf("", "write data folder: %w", err)
	}
	return nil
}

func (f *folder) writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("mgmt: write %s: %w", name, err)
	}
	return f.write(name, append(b, '\n'))
}

// serverFile is which server of which mesh the folder belongs to.
type serverFile struct {
	Mesh   mesh.ID       `json:"mesh"`
	Server mesh.ServerID `json:"server"`
	Made   time.Time     `json:"made"`
}

func (s *serverFile) parse(b []byte) error {
	if err := json.Unmarshal(b, s); err != nil {
		return err
	}
	_, err := mesh.ParseID(string(s.Mesh))
	_, err2 := mesh.ParseServerID(string(s.Server))
	return errors.Join(err, err2)
}

// foundedFile says that etcd holds the mesh.
type foundedFile struct {
	At time.Time `json:"at"`
}

func (x *foundedFile) parse(b []byte) error {
	if err := json.Unmarshal(b, x); err != nil {
		return err
	}
	if x.At.IsZero() {
		return errors.New("it names no time")
	}
	return nil
}
