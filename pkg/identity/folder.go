package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Folder keeps a node's identity on disk. Each version is one file, key and
// certificates together, so that no crash can leave a mix:
//
//	<dir>/              0700
//	  identity-1.pem    0600: key, chain from leaf to root, further roots
//	  identity-2.pem    the next one; the highest number that reads well counts
//	  pending-key.pem   a key whose certificate has not arrived yet
//
// Files of other packages may lie beside them. One process uses a folder at a
// time.
type Folder struct {
	Log *slog.Logger // told when an older version has to serve; nil discards

	dir  string
	now  func() time.Time
	step func(string) error // tests: fail before a step of writing
}

const pendingFile = "pending-key.pem"

// OpenFolder makes dir (mode 0700, whatever the umask; parents 0755) or checks
// that nobody else may enter it. It returns ErrInvalid when others may.
func OpenFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("identity: open folder: %w", err)
	}
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
	case err != nil:
		return nil, fmt.Errorf("identity: open folder: %w", err)
	default:
		if err := errors.Join(os.Chmod(dir, 0o700), syncDir(filepath.Dir(dir))); err != nil {
			return nil, fmt.Errorf("identity: open folder: %w", err)
		}
	}
	if err := private(dir, "0700"); err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, now: time.Now}
	return f, f.clean()
}

// private refuses what group or others may touch.
func private(path, want string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("identity: open folder: %w", err)
	}
	if want == "0700" && !st.IsDir() {
		return fmt.Errorf("identity: %s is not a folder: %w", path, mesh.ErrInvalid)
	}
	if m := st.Mode().Perm(); m&0o077 != 0 {
		return mesh.WithHint(
			fmt.Errorf("identity: %s has mode %#o, want %s: others could read the key: %w", path, m, want, mesh.ErrInvalid),
			"chmod "+want+" "+path+" – and if strangers have accounts here, join again with a new token")
	}
	return nil
}

// clean removes what a crash left half written.
func (f *Folder) clean() error {
	names, err := filepath.Glob(filepath.Join(f.dir, "*.pem"+partial))
	if err != nil {
		return fmt.Errorf("identity: open folder: %w", err)
	}
	for _, n := range names {
		if err := os.Remove(n); err != nil {
			return fmt.Errorf("identity: open folder: %w", err)
		}
	}
	return nil
}

// Load returns the newest identity that reads well. It returns ErrNotFound when
// there never was one, and ErrInvalid, naming the files, when none reads well.
func (f *Folder) Load() (*Node, error) {
	versions, err := f.versions()
	if err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		return nil, mesh.WithHint(fmt.Errorf("identity: load %s: no identity yet: %w", f.dir, mesh.ErrNotFound),
			"join the mesh with a token first")
	}
	for _, v := range versions {
		if err := private(f.path(v), "0600"); err != nil {
			return nil, err
		}
	}
	v, c, faults := f.newest(versions)
	if c == nil {
		return nil, mesh.WithHint(errors.Join(faults...),
			"restore the file from a copy, or move the folder away and join again with a new token")
	}
	if len(faults) > 0 && f.Log != nil {
		f.Log.Error("damaged identity file passed over", "file", f.path(versions[len(versions)-1]), "used", f.path(v), "err", faults[0])
	}
	return newNode(c), nil
}

// newest returns the highest version that reads well, or nil credentials, and
// what is wrong with those above it.
func (f *Folder) newest(versions []int) (int, *credentials, []error) {
	var faults []error
	for _, v := range slices.Backward(versions) {
		c, err := f.read(v)
		if err == nil {
			return v, c, faults
		}
		faults = append(faults, err)
	}
	return 0, nil, faults
}

func (f *Folder) read(version int) (*credentials, error) {
	path := f.path(version)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("identity: load: %w", err)
	}
	c, err := decodeCredentials(b)
	if err != nil {
		return nil, fmt.Errorf("identity: load %s: the file is damaged: %w", path, err)
	}
	return c, nil
}

// versions lists the numbers of the files there are, ascending.
func (f *Folder) versions() ([]int, error) {
	names, err := filepath.Glob(filepath.Join(f.dir, "identity-*.pem"))
	if err != nil {
		return nil, fmt.Errorf("identity: load: %w", err)
	}
	var out []int
	for _, n := range names {
		text := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(n), "identity-"), ".pem")
		if v, err := strconv.Atoi(text); err == nil && v > 0 {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (f *Folder) path(version int) string {
	return filepath.Join(f.dir, "identity-"+strconv.Itoa(version)+".pem")
}
