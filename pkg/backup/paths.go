package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// The tree of a backup:
//
//	README.md                     what this is, and how to restore
//	manifest.yaml                 what the backup is of, with the digests of what is below
//	manifest.sig                  signature of the manifest and the certificates above it
//	root.crt                      the mesh's root
//	keys.age                      data keys and the sealed root
//	recipients/<name>.txt         who can read *.age
//	recipients/<name>.age         an identity under a passphrase
//	index/<folder>.yaml           digests of the shards of a folder
//	index/<folder>/<00..3f>.yaml  digests of the files of a shard
//	index/audit.yaml              digests of the audit segments of the last day
//	<folder>/[<00..3f>/]<id>.yaml what everybody may see of an object
//	<folder>/[<00..3f>/]<id>.age  the rest of it
//	audit/<day>/<id>.age          audit records, from the one with that id on
//	audit/<day>/index.yaml        what index/audit.yaml was at the end of that day
const (
	fileReadme    = "README.md"
	fileManifest  = "manifest.yaml"
	fileSignature = "manifest.sig"
	fileRoot      = "root.crt"
	fileKeys      = "keys.age"
	dirRecipients = "recipients"
	dirIndex      = "index"
	dirAudit      = "audit"
	fileAudit     = dirIndex + "/" + dirAudit + ".yaml"

	extOpen   = ".yaml"
	extClosed = ".age"
)

// shards is how many parts the index of a folder has.
const shards = 64

// FolderAudit is the folder of audit records.
const FolderAudit = dirAudit

// flat are folders of few objects, which have no folders of shards. Others have
// them because each commit writes the list of a folder's files anew.
var flat = [...]string{"admins", "backup", "ca", "cells", "config", "entries", "rollouts", "servers"}

// NeededForDraft says whether Draft wants that file of the commit it builds on.
func NeededForDraft(path string) bool {
	return path == fileManifest || path == fileSignature || strings.HasPrefix(path, dirIndex+"/")
}

// Ours says whether a file with that path belongs to the backup, and not to
// somebody who keeps files of his own beside it. Folders of later versions are
// ours as soon as the manifest names them.
func (m *Manifest) Ours(path string) bool {
	top, _, below := strings.Cut(path, "/")
	if !below {
		return slices.Contains([]string{fileReadme, fileManifest, fileSignature, fileRoot, fileKeys}, path)
	}
	_, named := m.Folders[top]
	return named || known(top) || slices.Contains(reserved[:], top)
}

func shardOf(folder, id string) string {
	sum := sha256.Sum256([]byte(folder + "/" + id))
	return hex.EncodeToString([]byte{sum[0] % shards})
}

// pathOf is the path of an object's files, without the extension.
func pathOf(folder, id string) string {
	if slices.Contains(flat[:], folder) {
		return folder + "/" + id
	}
	return folder + "/" + shardOf(folder, id) + "/" + id
}

func folderIndexPath(folder string) string { return dirIndex + "/" + folder + ".yaml" }
func shardIndexPath(folder, shard string) string {
	return dirIndex + "/" + folder + "/" + shard + ".yaml"
}
