package store

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// The whole key space. This is the only file of the package that spells a
// slash; pkg/store/gateway spells routes/ and targets/ for the other side.
//
//	/mesh/v1/
//	├── members/<member id>          a person
//	├── devices/<device id>          one client of a member
//	├── cells/<cell id>              cores under one suffix
//	├── cores/<core id>              exit node
//	├── entries/<entry id>           entrance node
//	├── kubes/<kube id>              Kubernetes cluster with entries
//	├── kubestate/<kube id>          what was last seen of it
//	├── tokens/<token id>            join tokens, hashes only
//	├── certs/<serial>               what the CA issued
//	├── revocations/<time id>        signed
//	├── admins/<admin id>            administrators
//	├── servers/<server id>          management servers, removed ones too
//	├── config/mesh                  mesh-wide configuration
//	├── ca/<name>                    sealed keys, certificates
//	├── cellcerts/<core id>          certificates of public cells: request, chain, failure
//	├── acme/settings                how such certificates are ordered
//	├── acmestate/state              what is known of the account
//	├── subcert/current              certificate of the subscription service, key sealed
//	├── backup/settings              where backups go, and who can read them
//	├── backupstate/state            how they go
//	├── routes/<server name>         derived: what an entry learns of a name
//	├── targets/<core id>            derived: what an entry learns of a core
//	├── hours/<hour>.<core id>.<meter>.<part>  what a core had counted, trimmed by age
//	├── totals/<shard>               what devices have moved
//	├── progress/traffic             up to which hour that is in totals
//	├── spent/<device id>            derived: whose traffic is used up
//	├── spent/<cell id>.<member id>  the same of guests
//	├── reach/<entry id>             how connections from an entry to cores go
//	├── cellwatch/<cell id>          cells that clients do not get into
//	├── cellusage/<cell id>          what cells move, hour by hour
//	├── relayed/<entry id>           what an entry has relayed through each core
//	├── meteraudit/current           what was compared of that and of hours
//	├── rollouts/<group>             how a configuration reaches a group of nodes
//	├── status/<role>/<id>           last known of a node, apart from its specification
//	├── alive/<role>/<id>            under the lease of the server that holds the stream
//	├── events/<time id>             trimmed by age and number
//	├── audit/<time id>              trimmed by age and number
//	├── auditchain/<number>          links over the audit records
//	├── chained                      how far that chain goes
//	├── alerts/<rule>.<hash>         rules that hold
//	├── hooks/<name>                 webhooks, URL and key sealed
//	├── hookstate/<name>             how each goes
//	├── outbox/<time id>             notices on their way out, dropped after a day
//	├── telegram/<telegram user id>  who is linked, asked to join or is blocked
//	├── telegramcodes/<hash>         codes that link
//	├── chats/<number>               what the bot waits for
//	├── threads/<chat>.<message>     to whom replies go, trimmed by age
//	├── shown/<token id>             join tokens that stand in a chat
//	├── botstate/state               how the bot goes
//	├── once/<hash>                  things that may happen once
//	├── names/<kind>/<name>          who has a label; base64url, since labels are data
//	│   ├── devices/<member id>/<name>   devices' labels are unique within a member
//	│   ├── suffixes/<name>              cells' suffixes
//	│   └── routes/<device id>           the names under which a device has routes
//	├── changed                      rewritten with everything that backups hold
//	├── importing                    there while an import is not complete
//	├── deletions/<folder>           rewritten by every deletion in folder, so that
//	│                                who listed the folder notices
//	└── election/<office>            under the lease of the server that holds it
const root = "/mesh/v1/"

const (
	folderMembers     = "members"
	folderDevices     = "devices"
	folderCells       = "cells"
	folderCores       = "cores"
	folderEntries     = "entries"
	folderKubes       = "kubes"
	folderKubeState   = "kubestate"
	folderTokens      = "tokens"
	folderCerts       = "certs"
	folderRevocations = "revocations"
	folderAdmins      = "admins"
	folderServers     = "servers"
	folderConfig      = "config"
	folderCA          = "ca"
	folderCellCerts   = "cellcerts"
	folderACME        = "acme"
	folderACMEState   = "acmestate"
	folderSubCert     = "subcert"
	folderBackup      = "backup"
	folderBackupState = "backupstate"
	folderRoutes      = "routes"
	folderTargets     = "targets"
	folderHours       = "hours"
	folderProgress    = "progress"
	folderTotals      = "totals"
	folderSpent       = "spent"
	folderReach       = "reach"
	folderCellWatch   = "cellwatch"
	folderCellUsage   = "cellusage"
	folderRelayed     = "relayed"
	folderMeterAudit  = "meteraudit"
	folderRollouts    = "rollouts"
	folderStatus      = "status"
	folderAlive       = "alive"
	folderEvents      = "events"
	folderAudit       = "audit"
	folderAuditChain  = "auditchain"
	folderAlerts      = "alerts"
	folderHooks       = "hooks"
	folderHookState   = "hookstate"
	folderOutbox      = "outbox"
	folderTelegram    = "telegram"
	folderCodes       = "telegramcodes"
	folderChats       = "chats"
	folderThreads     = "threads"
	folderShown       = "shown"
	folderBotState    = "botstate"
	folderOnce        = "once"
	folderNames       = "names"
	folderSuffixes    = "suffixes"
	folderDeletions   = "deletions"
	folderElection    = "election"
)

// ConfigKey is the id of the one object in Store.Config.
const ConfigKey = "mesh"

// BackupKey is the id of the one object in Store.Backup, and BackupStateKey of
// the one in Store.BackupState.
const (
	BackupKey      = "settings"
	BackupStateKey = "state"
)

// ACMEKey is the id of the one object in Store.ACME, ACMEStateKey of the one in
// Store.ACMEState, and SubCertKey of the one in Store.SubCert.
const (
	ACMEKey      = "settings"
	ACMEStateKey = "state"
	SubCertKey   = "current"
)

// BotStateKey is the id of the one object in Store.BotState.
const BotStateKey = "state"

// MeterAuditKey is the id of the one object in Store.MeterAudit.
const MeterAuditKey = "current"

// FolderTotals is the folder of Store.Totals, as Raw names it.
const FolderTotals = folderTotals

const (
	changedKey   = root + "changed"
	chainedKey   = root + "chained"
	importingKey = root + "importing"
)

// maxID bounds an id in bytes; the longest are server names (253).
const maxID = 300

// folderPrefix is what the keys of a folder begin with.
func folderPrefix(folder string) string { return root + folder + "/" }

// coreStatusPrefix is what the keys of the status of cores begin with.
const coreStatusPrefix = root + folderStatus + "/" + string(mesh.RoleCore) + "/"

// keyOf is where the object with that id is. Ids are written by us alone, but
// some arrive from outside, so their letters are checked. It returns ErrInvalid.
func keyOf(folder, id string) (string, error) {
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, notInID) ||
		(strings.Contains(id, "/") && folder != folderStatus) {
		return "", fmt.Errorf("store: %s: id %q: %w", folder, mesh.Quotable(id), mesh.ErrInvalid)
	}
	return folderPrefix(folder) + id, nil
}

func notInID(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '/'
}

// folderOf is the folder of a key.
func folderOf(key string) string {
	folder, _, _ := strings.Cut(strings.TrimPrefix(key, root), "/")
	return folder
}

// objectOf is the kind/id form of a key, as audit and events name objects.
func objectOf(kind, key string) string {
	_, id, _ := strings.Cut(strings.TrimPrefix(key, root), "/")
	return kind + "/" + id
}

func encodeName(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// nameKey is where the holder of a label is noted. within is the folder of the
// index, and for devices the member too.
func nameKey(within, name string) string { return namesPrefix(within) + encodeName(name) }

func namesPrefix(within string) string { return folderPrefix(folderNames) + within + "/" }

// deviceNames is the index of one member's devices.
func deviceNames(m mesh.MemberID) string { return folderDevices + "/" + string(m) }

// routeIndexKey is where the names of a device's routes are noted.
func routeIndexKey(d mesh.DeviceID) string { return namesPrefix(folderRoutes) + string(d) }

func deletionKey(folder string) string { return folderPrefix(folderDeletions) + folder }

func aliveKey(node string) string { return folderPrefix(folderAlive) + node }

func officeKey(office string) (string, error) { return keyOf(folderElection, office) }

func onceKey(hash string) string { return folderPrefix(folderOnce) + hash }

// place is where a sealed field is stored, and so what it is bound to.
func place(folder, id, field string) string { return folder + "/" + id + "/" + field }

// DeviceSecretPlace is the place of Device.Secret, for Seal and Unseal.
func DeviceSecretPlace(id mesh.DeviceID) string { return place(folderDevices, string(id), "secret") }

// CellKeyPlace is the place of Cell.CAKey, for Seal and Unseal.
func CellKeyPlace(id mesh.CellID) string { return place(folderCells, string(id), "caKey") }

// BlobPlace is the place of a sealed text inside a blob, for Seal and Unseal.
func BlobPlace(name string) string { return place(folderCA, name, "data") }

// BackupRemotePlace is the place of a remote's credential, for Seal and Unseal.
func BackupRemotePlace(name string) string { return place(folderBackup, name, "credential") }

// BackupVerifyPlace is the place of BackupSettings.VerifyIdentity.
func BackupVerifyPlace() string { return place(folderBackup, BackupKey, "verifyIdentity") }

// BackupSignPlace is the place of BackupSettings.SignKey.
func BackupSignPlace() string { return place(folderBackup, BackupKey, "signKey") }

// ACMEAccountPlace is the place of ACMESettings.AccountKey.
func ACMEAccountPlace() string { return place(folderACME, ACMEKey, "accountKey") }

// ACMEExternalPlace is the place of ACMESettings.ExternalKey.
func ACMEExternalPlace() string { return place(folderACME, ACMEKey, "externalKey") }

// DNSCredentialPlace is the place of ACMESettings.DNS.Credential.
func DNSCredentialPlace() string { return place(folderACME, ACMEKey, "dns.credential") }

// SubCertKeyPlace is the place of SubscriptionCert.Key and of Pending, which
// becomes Key.
func SubCertKeyPlace() string { return place(folderSubCert, SubCertKey, "key") }

// HookURLPlace is the place of Webhook.URL, for Seal and Unseal.
func HookURLPlace(name string) string { return place(folderHooks, name, "url") }

// HookSecretPlace is the place of Webhook.Secret, for Seal and Unseal.
func HookSecretPlace(name string) string { return place(folderHooks, name, "secret") }

// KubeCredentialPlace is the place of KubeCluster.Credential, for Seal and Unseal.
func KubeCredentialPlace(id mesh.KubeID) string { return place(folderKubes, string(id), "credential") }
