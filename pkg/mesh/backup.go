package mesh

import "time"

// BackupSettings says how the state of the mesh is kept in Git: one object,
// changed by owners.
type BackupSettings struct {
	// Recipients can read what is private in a backup. Without any, nothing
	// private is written at all.
	Recipients []BackupRecipient `json:"recipients,omitzero"`
	// Remotes are the repositories that are pushed to.
	Remotes []BackupRemote `json:"remotes,omitzero"`
	// Every is the least time between two commits.
	Every Duration `json:"every,omitzero"`
	// Heartbeat is how often the head is tagged when nothing changes.
	Heartbeat Duration `json:"heartbeat,omitzero"`
	// ProveEvery is the least time between two proofs that a backup restores.
	ProveEvery Duration `json:"proveEvery,omitzero"`
	// TotalsEvery is the least time between two commits of traffic totals.
	TotalsEvery Duration `json:"totalsEvery,omitzero"`
	// PlaintextObjects shows what is personal to whoever reads the repository:
	// names, contacts, addresses. What is secret stays encrypted.
	PlaintextObjects bool `json:"plaintextObjects,omitzero"`
	// VerifyRecipient and VerifyIdentity are an age key of the mesh's own, with
	// which a proof decrypts. The leader makes it when it first needs it.
	VerifyRecipient string `json:"verifyRecipient,omitzero"`
	VerifyIdentity  Sealed `json:"verifyIdentity,omitzero"`
	// SignKey signs commits, an SSH private key; "" leaves them unsigned. (The
	// manifest in each is signed by the mesh in any case.)
	SignKey    Sealed       `json:"signKey,omitzero"`
	SignPublic string       `json:"signPublic,omitzero"` // authorized_keys line
	Copies     BackupCopies `json:"copies,omitzero"`
	// Run and Verify are raised to ask for a backup and for a proof at once.
	Run    uint64 `json:"run,omitzero"`
	Verify uint64 `json:"verify,omitzero"`
}

// BackupRecipient is a public key that backups are encrypted to.
type BackupRecipient struct {
	Name string `json:"name"`
	Key  string `json:"key"` // age1…, ssh-ed25519 … or ssh-rsa …
	// Protected is the identity of Key, an armored age file that a passphrase
	// opens, so that the passphrase alone restores.
	Protected string    `json:"protected,omitzero"`
	Added     time.Time `json:"added"`
}

// BackupRemote is a Git repository that backups are pushed to.
type BackupRemote struct {
	Name string `json:"name"`
	// URL is an absolute path, file://, ssh://, host:path or https://, without
	// password.
	URL    string `json:"url"`
	Branch string `json:"branch"`
	// User logs in, with SSH and with a token; "" is "git".
	User string `json:"user,omitzero"`
	// KnownHosts are the lines of known_hosts that an SSH server is held to.
	KnownHosts []string   `json:"knownHosts,omitzero"`
	Auth       BackupAuth `json:"auth"`
	// Credential is the SSH private key or the token.
	Credential Sealed    `json:"credential,omitzero"`
	Added      time.Time `json:"added"`
	// Settled is the branch of the last conflict that a person has looked at.
	Settled string `json:"settled,omitzero"`
}

// BackupAuth is how a remote is logged in to.
type BackupAuth string

// Ways to log in.
const (
	BackupAuthNone   BackupAuth = "none"
	BackupAuthAgent  BackupAuth = "agent" // the SSH agent of the server
	BackupAuthSSHKey BackupAuth = "ssh-key"
	BackupAuthToken  BackupAuth = "token"
)

// BackupCopies are full copies of etcd, encrypted, in a folder of the server
// that leads.
type BackupCopies struct {
	Dir   string   `json:"dir,omitzero"` // absolute; "": no copies are made
	Every Duration `json:"every,omitzero"`
	Keep  int      `json:"keep,omitzero"`
}

// What holds where a setting is zero.
const (
	defaultBackupEvery = 10 * time.Second
	defaultHeartbeat   = 24 * time.Hour
	defaultProveEvery  = time.Hour
	defaultTotalsEvery = time.Hour
	defaultCopiesEvery = 24 * time.Hour
	defaultCopiesKeep  = 7
	// DefaultBackupBranch is pushed to unless a remote names another.
	DefaultBackupBranch = "main"
	// DefaultBackupUser logs in unless a remote names another.
	DefaultBackupUser = "git"
)

// WithDefaults fills in what is zero.
func (s BackupSettings) WithDefaults() BackupSettings {
	fill := func(d *Duration, def time.Duration) {
		if *d == 0 {
			*d = Duration(def)
		}
	}
	fill(&s.Every, defaultBackupEvery)
	fill(&s.Heartbeat, defaultHeartbeat)
	fill(&s.ProveEvery, defaultProveEvery)
	fill(&s.TotalsEvery, defaultTotalsEvery)
	fill(&s.Copies.Every, defaultCopiesEvery)
	if s.Copies.Keep == 0 {
		s.Copies.Keep = defaultCopiesKeep
	}
	return s
}

// BackupState is how backups go, written by the server that makes them.
type BackupState struct {
	Leader  ServerID            `json:"leader,omitzero"` // who wrote this
	Remotes []BackupRemoteState `json:"remotes,omitzero"`
	// Commit is the newest, Revision the one of etcd that it shows.
	Commit    string    `json:"commit,omitzero"`
	Revision  int64     `json:"revision,omitzero"`
	Committed time.Time `json:"committed,omitzero"`
	// Ran and Verified are the settings' Run and Verify that were carried out.
	Ran      uint64           `json:"ran,omitzero"`
	Verified uint64           `json:"verified,omitzero"`
	Proof    BackupProofState `json:"proof,omitzero"`
	Copy     BackupCopyState  `json:"copy,omitzero"`
	// Held says why no backup is made now; "" when nothing holds it.
	Held string `json:"held,omitzero"`
}

// BackupRemoteState is how the pushes to one remote go.
type BackupRemoteState struct {
	Name string `json:"name"`
	// Head is the commit that the remote was last seen to hold, and Pushed when
	// that was.
	Head   string    `json:"head,omitzero"`
	Pushed time.Time `json:"pushed,omitzero"`
	Failed time.Time `json:"failed,omitzero"`
	// Failures are those since the last success; Reason is the last one's.
	Failures int    `json:"failures,omitzero"`
	Reason   string `json:"reason,omitzero"`
	// Conflict is the branch with what somebody else changed in our files, until
	// BackupRemote.Settled names it.
	Conflict string `json:"conflict,omitzero"`
}

// BackupProofState is the last try to restore a backup. It is zero when there
// never was one.
type BackupProofState struct {
	Commit  string    `json:"commit,omitzero"`
	At      time.Time `json:"at,omitzero"`
	Took    Duration  `json:"took,omitzero"`
	Objects int       `json:"objects,omitzero"` // compared, and equal
	Problem string    `json:"problem,omitzero"` // "": the backup restores
}

// BackupCopyState is the last full copy, and how many there are.
type BackupCopyState struct {
	File    string    `json:"file,omitzero"`
	At      time.Time `json:"at,omitzero"`
	Tried   time.Time `json:"tried,omitzero"` // the last one, or the last failure
	Bytes   int64     `json:"bytes,omitzero"`
	SHA256  string    `json:"sha256,omitzero"` // of the file
	Count   int       `json:"count,omitzero"`
	Problem string    `json:"problem,omitzero"`
}

// Remote returns the state of a remote, zero but for the name when there is none.
func (s BackupState) Remote(name string) BackupRemoteState {
	for _, r := range s.Remotes {
		if r.Name == name {
			return r
		}
	}
	return BackupRemoteState{Name: name}
}
