package backup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// MaxObject bounds the JSON of an object in bytes.
	MaxObject = 1 << 20
	// MaxFile bounds every file of a backup in bytes.
	MaxFile = 8 << 20
	// maxID bounds an id in bytes, so that every file system takes its file.
	maxID = 200
)

// Object is one object of the state, as it is stored.
type Object struct {
	Folder, ID string
	JSON       []byte // a JSON object, members that nobody here knows included
	// Partial is set by Read when a part of the object was never written,
	// because there was no recipient who could have read it.
	Partial bool
}

// Name is folder/id.
func (o Object) Name() string { return o.Folder + "/" + o.ID }

// State is what a backup says.
type State struct {
	Mesh mesh.ID
	// Epoch is the mesh's, which rises with each restore; Leader is the epoch of
	// the office that made the backup. Of two backups the one with the higher
	// pair is the later.
	Epoch, Leader int64
	Revision      int64 // of etcd
	Time          time.Time
	Objects       []Object // sorted by folder and id when Read returns them
	Keys          Keys
	Recipients    []Recipient
	// VerifyRecipient is the mesh's own key, which is a recipient as soon as
	// there is another. Read does not set it.
	VerifyRecipient string
	// Plaintext shows personal members to everybody; secret ones stay encrypted.
	Plaintext bool

	// Read sets what follows.

	Secrets bool          // the backup has encrypted files
	Server  mesh.ServerID // that signed the backup; "" when nobody did
	// Audit are the records that ReadOptions.Audit asked for, oldest first.
	Audit []Object
	// AuditUnread is how many of the segments that were asked for no identity opens.
	AuditUnread int
}

// Keys are what a mesh needs beside its objects.
type Keys struct {
	Data       [][32]byte // data keys; the first seals
	SealedRoot []byte     // the root's key under its passphrase
	Root       []byte     // the root's certificate, PEM; public
}

// Recipient is somebody who can read the private part of a backup.
type Recipient struct {
	Name string // a label for the file, of a-z, 0-9 and hyphens
	Key  string // as ParseRecipient returns it
	// Protected is the identity of Key under a passphrase, as NewProtected
	// returns it, or "".
	Protected string
}

// sorted returns the objects by folder and id. It returns ErrInvalid for one
// that cannot be a file, and for two that would be the same.
func sorted(objects []Object) ([]Object, error) {
	out := slices.Clone(objects)
	slices.SortFunc(out, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Folder, b.Folder), cmp.Compare(a.ID, b.ID))
	})
	for i, o := range out {
		if !validFolder(o.Folder) || !validID(o.ID) {
			return nil, fmt.Errorf("backup: object %q: its name cannot be that of a file: %w", mesh.Quotable(o.Name()), mesh.ErrInvalid)
		}
		if i > 0 && out[i-1].Folder == o.Folder && out[i-1].ID == o.ID {
			return nil, fmt.Errorf("backup: object %s is there twice: %w", o.Name(), mesh.ErrInvalid)
		}
	}
	return out, nil
}

// reserved are the folders of a tree that hold no objects.
var reserved = [...]string{dirIndex, dirAudit, dirRecipients}

func validFolder(s string) bool {
	return s != "" && len(s) <= 40 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == "" && !slices.Contains(reserved[:], s)
}

func validID(s string) bool {
	return s != "" && len(s) <= maxID && s[0] != '.' && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
	})
}

func validLabel(s string) bool {
	return s != "" && len(s) <= 63 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
