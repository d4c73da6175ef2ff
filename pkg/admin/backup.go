package admin

import (
	"encoding/json"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// BackupView is how backups are made and how that goes, without any secret.
type BackupView struct {
	Mesh mesh.ID `json:"mesh"`
	// Root is the SHA-256 of the root certificate, hexadecimal: what a reader of
	// the repository holds the signatures to.
	Root     string             `json:"root"`
	Settings BackupSettingsView `json:"settings"`
	State    mesh.BackupState   `json:"state"`
	// Warnings are about what would keep a backup from being of use.
	Warnings []string `json:"warnings,omitzero"`
}

// BackupSettingsView is mesh.BackupSettings as shown, with the defaults filled in.
type BackupSettingsView struct {
	Recipients       []BackupRecipientView `json:"recipients"`
	Remotes          []BackupRemoteView    `json:"remotes"`
	Every            mesh.Duration         `json:"every"`
	Heartbeat        mesh.Duration         `json:"heartbeat"`
	ProveEvery       mesh.Duration         `json:"proveEvery"`
	TotalsEvery      mesh.Duration         `json:"totalsEvery"`
	PlaintextObjects bool                  `json:"plaintextObjects"`
	SignPublic       string                `json:"signPublic,omitzero"`
	Copies           mesh.BackupCopies     `json:"copies,omitzero"`
	Run              uint64                `json:"run"`
	Verify           uint64                `json:"verify"`
}

// BackupRecipientView is a recipient as shown. Protected says that a passphrase
// opens its identity, which every backup holds.
type BackupRecipientView struct {
	Name      string    `json:"name"`
	Key       string    `json:"key"`
	Protected bool      `json:"protected,omitzero"`
	Added     time.Time `json:"added"`
}

// BackupRemoteView is a remote as shown. Public is the public half of its SSH
// key, a line of authorized_keys.
type BackupRemoteView struct {
	Name       string          `json:"name"`
	URL        string          `json:"url"`
	Branch     string          `json:"branch"`
	User       string          `json:"user,omitzero"`
	Auth       mesh.BackupAuth `json:"auth"`
	KnownHosts []string        `json:"knownHosts,omitzero"`
	Public     string          `json:"public,omitzero"`
	Added      time.Time       `json:"added"`
	Settled    string          `json:"settled,omitzero"` // see mesh.BackupRemote
}

// BackupSetRequest changes what is not nil; a duration of 0 brings the default
// back. SignKey is an SSH private key, "" takes it away.
type BackupSetRequest struct {
	Every            *mesh.Duration `json:"every,omitempty"`
	Heartbeat        *mesh.Duration `json:"heartbeat,omitempty"`
	ProveEvery       *mesh.Duration `json:"proveEvery,omitempty"`
	TotalsEvery      *mesh.Duration `json:"totalsEvery,omitempty"`
	PlaintextObjects *bool          `json:"plaintextObjects,omitempty"`
	CopiesDir        *string        `json:"copiesDir,omitempty"`
	CopiesEvery      *mesh.Duration `json:"copiesEvery,omitempty"`
	CopiesKeep       *int           `json:"copiesKeep,omitempty"`
	SignKey          *string        `json:"signKey,omitempty"`
}

// BackupRemoteAddRequest adds a remote, or replaces the one of that name.
type BackupRemoteAddRequest struct {
	Name       string          `json:"name"`
	URL        string          `json:"url"`
	Branch     string          `json:"branch,omitzero"` // default main
	User       string          `json:"user,omitzero"`
	Auth       mesh.BackupAuth `json:"auth"`
	Credential string          `json:"credential,omitzero"` // SSH private key or token
	KnownHosts []string        `json:"knownHosts,omitzero"`
	Replace    bool            `json:"replace,omitzero"`
}

// BackupRecipientAddRequest adds a public key that backups are encrypted to.
type BackupRecipientAddRequest struct {
	Name      string `json:"name"`
	Key       string `json:"key"`
	Protected string `json:"protected,omitzero"` // its identity under a passphrase, an armored age file
}

// BackupRevertRequest brings one object back to what a backup says it was.
type BackupRevertRequest struct {
	Object string          `json:"object"`          // kind/id
	JSON   json.RawMessage `json:"json"`            // as stored then
	Commit string          `json:"commit,omitzero"` // where that is from, for the record
	Check  bool            `json:"check,omitzero"`  // change nothing, only say what would be
	IfRev  int64           `json:"ifRev,omitzero"`  // refuse unless Rev is still this
}

// BackupReverted is the object before and after, secrets redacted. A nil Before
// means that it did not exist any more.
type BackupReverted struct {
	Object string         `json:"object"`
	Before map[string]any `json:"before,omitzero"`
	After  map[string]any `json:"after,omitzero"`
	// Rev is when the object was last changed before this; 0 with a nil Before.
	Rev int64 `json:"rev"`
	// Same: the object is now what it was then.
	Same bool `json:"same,omitzero"`
}
