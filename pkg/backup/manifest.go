package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// Format is what this version writes, and the newest that it reads.
	Format = 1
	// maxManifest bounds a manifest in bytes.
	maxManifest = 256 << 10
)

// Manifest says what a backup is of, and holds a digest, itself or through the
// index, of every file in it.
type Manifest struct {
	Format    int                     `json:"format"`
	MinReader int                     `json:"minReader"` // the oldest format that a reader has to know
	Mesh      mesh.ID                 `json:"mesh"`
	Server    mesh.ServerID           `json:"server"` // that made it
	Epoch     int64                   `json:"epoch"`
	Leader    int64                   `json:"leader"`
	Revision  int64                   `json:"revision"`
	Time      time.Time               `json:"time"`
	Plaintext bool                    `json:"plaintext"`
	Secrets   bool                    `json:"secrets"`
	Audience  string                  `json:"audience,omitzero"` // names the set of recipients
	Objects   int                     `json:"objects"`
	Folders   map[string]FolderDigest `json:"folders,omitzero"`
	Files     map[string]string       `json:"files"` // SHA-256 of those in no folder
	KeysPlain string                  `json:"keysPlain,omitzero"`
	Audit     AuditDigest             `json:"audit,omitzero"`
}

// FolderDigest is what the manifest says of a folder.
type FolderDigest struct {
	Objects int    `json:"objects"`
	Index   string `json:"index"` // SHA-256 of index/<folder>.yaml
}

// AuditDigest is what the manifest says of the audit records.
type AuditDigest struct {
	Index   string `json:"index,omitzero"`   // SHA-256 of index/audit.yaml
	Through string `json:"through,omitzero"` // the last record that a commit has named
}

// Newer says whether m is a later backup of the mesh than o, by who made it: a
// leader that finds a newer one in a repository is not the leader any more.
func (m *Manifest) Newer(o *Manifest) bool {
	if m.Epoch != o.Epoch {
		return m.Epoch > o.Epoch
	}
	return m.Leader > o.Leader
}

func (m *Manifest) encode() ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	v, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	return toYAML(v), nil
}

// TooNewError says that a backup needs a newer program.
type TooNewError struct{ Need int }

func (e *TooNewError) Error() string {
	return fmt.Sprintf("backup: %s: it needs format %d, this program reads up to %d", fileManifest, e.Need, Format)
}

// ParseManifest reads a manifest; VerifyManifest says whether to believe it. It
// returns ErrInvalid, or *TooNewError.
func ParseManifest(data []byte) (*Manifest, error) {
	bad := func(err error) (*Manifest, error) {
		return nil, fmt.Errorf("backup: %s: %w: %w", fileManifest, err, mesh.ErrInvalid)
	}
	if len(data) > maxManifest {
		return bad(fmt.Errorf("%d bytes: want at most %d", len(data), maxManifest))
	}
	v, err := fromYAML(data)
	if err != nil {
		return bad(err)
	}
	var version struct {
		Format    int `json:"format"`
		MinReader int `json:"minReader"`
	}
	text := appendObject(nil, v)
	if err := json.Unmarshal(text, &version); err != nil || version.Format < 1 {
		return bad(errors.New("it does not say its format"))
	}
	if version.MinReader > Format {
		return nil, mesh.WithHint(&TooNewError{Need: version.MinReader}, "use a newer meshctl")
	}
	m := new(Manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return bad(err)
	}
	if err := m.check(); err != nil {
		return bad(err)
	}
	return m, nil
}

func (m *Manifest) check() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, err := mesh.ParseID(string(m.Mesh))
	want(err == nil, "mesh %q: want the id of one", mesh.Quotable(string(m.Mesh)))
	want(!m.Time.IsZero(), "time: want one")
	want(m.Audit.Index == "" || isDigest(m.Audit.Index), "audit.index: want a SHA-256")
	want(m.Audit.Through == "" || validID(m.Audit.Through), "audit.through: want the id of a record")
	total := 0
	for folder, d := range m.Folders {
		want(validFolder(folder) && isDigest(d.Index) && d.Objects > 0, "folders.%.40q: want a name, objects and a SHA-256", folder)
		total += d.Objects
	}
	want(total == m.Objects, "objects: %d, and %d in the folders", m.Objects, total)
	for path, sum := range m.Files {
		want(validPath(path) && isDigest(sum), "files.%.80q: want a path and a SHA-256", path)
	}
	return errors.Join(errs...)
}

// validPath: what a manifest names beside the folders of objects.
func validPath(path string) bool {
	switch path {
	case fileReadme, fileRoot, fileKeys:
		return true
	}
	name, ok := strings.CutPrefix(path, dirRecipients+"/")
	text, isText := strings.CutSuffix(name, ".txt")
	protected, isAge := strings.CutSuffix(name, extClosed)
	return ok && (isText && validLabel(text) || isAge && validLabel(protected))
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func isDigest(s string) bool { return isHex(s, 2*sha256.Size) }

func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}
