package alert

import (
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Names of the rules about the state, for whoever looks at that.
const (
	ServerLost      = "mgmt-lost"
	QuorumAtRisk    = "quorum-at-risk"
	EntriesFailed   = "entries-rolled-back"
	EntriesLacking  = "entries-lacking"
	EntryAddress    = "entry-address-down"
	EntryLost       = "entry-lost"
	KubeConflict    = "kube-conflict"
	KubeCredential  = "kube-credential-ending"
	KubeUnreachable = "kube-unreachable"
	NoEntry         = "no-entry"
	PolicyOpen      = "policy-not-enforced"
	CoreLost        = "core-lost"
	CoreUnreachable = "core-unreachable"
	CellDown        = "cell-down"
	CellCompromised = "cell-compromised"
	ConfigParked    = "config-parked"
	CertExpiring    = "cert-expiring"
	NoticesWaiting  = "notices-waiting"
	Everything      = "mesh/all" // object of rules that make one alert of all
	defaultClear    = 2 * time.Minute
	day             = 24 * time.Hour
	remindCritical  = 4 * time.Hour
	remindWarning   = day
	remindRarely    = 3 * day
)

// Rules is the table, in order of name within each part.
func Rules() []Rule {
	return slices.Concat(stateRules(), clusterRules(), eventRules(), happenings())
}

// stateRules are decided by a look at the state.
func stateRules() []Rule {
	return []Rule{
		{Name: CellCompromised, Severity: mesh.Critical, What: "a cell is marked as compromised",
			Advice: "its members are served elsewhere meanwhile: put new cores under another suffix, or meshctl admin cell restore",
			Repeat: remindRarely},
		{Name: CellDown, Severity: mesh.Critical, What: "no core of a cell is ready",
			Advice: "look at the cores' machines: meshctl admin core list; clients of the cell are cut off",
			For:    30 * time.Second, Clear: defaultClear, Repeat: remindCritical},
		{Name: CertExpiring, Severity: mesh.Warning, What: "a certificate is near its end and was not renewed",
			Advice: "see whether the node runs and reaches a management server", Clear: defaultClear, Repeat: remindWarning},
		{Name: ConfigParked, Severity: mesh.Warning, What: "a change of the configuration was refused by the node that tried it, and is parked",
			Advice: "meshctl admin status says why; change it, or take it back", Repeat: remindWarning},
		{Name: CoreLost, Severity: mesh.Warning, What: "a core neither phones home nor answers",
			Advice: "look at the core's machine and its connection; clients use the other cores of the cell",
			Clear:  defaultClear, Repeat: remindWarning},
		{Name: CoreUnreachable, Severity: mesh.Warning, What: "a core phones home and cannot be dialled",
			Advice: "open the relay's port to the Internet, or have the core advertise the address under which it is reached",
			For:    2 * time.Minute, Clear: defaultClear, Repeat: remindWarning},
		{Name: EntryLost, Severity: mesh.Warning, What: "an entry does not phone home",
			Advice: "look at the entry's machine; when it is gone for good: meshctl admin entry revoke",
			For:    2 * time.Minute, Clear: defaultClear, Repeat: remindWarning,
			Fires: mesh.EventEntryLost, Over: mesh.EventEntryReady},
		{Name: NoEntry, Severity: mesh.Critical, What: "no entry phones home",
			Advice: "clients reach nothing: look at the machines of the entries, and whether they reach a management server",
			For:    30 * time.Second, Clear: defaultClear, Repeat: remindCritical},
		{Name: NoticesWaiting, Severity: mesh.Warning, What: "notices do not reach a webhook",
			Advice: "see whether what it posts to answers: meshctl admin alert webhook list", For: 10 * time.Minute, Clear: defaultClear, Repeat: remindWarning},
		{Name: QuorumAtRisk, Severity: mesh.Critical, What: "the loss of one more management server would stop all changes",
			Advice: "bring the lost server back, or put another in its place: docs/runbook/replace-a-server.md",
			For:    20 * time.Second, Clear: time.Minute, Repeat: remindCritical,
			Fires: mesh.EventQuorumAtRisk, Over: mesh.EventQuorumSafe},
		{Name: ServerLost, Severity: mesh.Warning, What: "a management server is away",
			Advice: "look at its machine; a server that is gone for good is removed: meshctl admin mgmt remove",
			For:    20 * time.Second, Clear: time.Minute, Repeat: remindWarning,
			Fires: mesh.EventMgmtLost, Over: mesh.EventMgmtBack},
	}
}

// eventRules begin with one event and end with another.
func eventRules() []Rule {
	types := func(t ...mesh.EventType) []mesh.EventType { return t }
	return []Rule{
		{Name: "backup-conflict", Severity: mesh.Critical, What: "somebody else writes to a repository of backups",
			Raise: types(mesh.EventBackupConflict), End: types(mesh.EventBackupRecovered), Repeat: remindWarning},
		{Name: "backup-failed", Severity: mesh.Warning, What: "backups fail",
			Raise: types(mesh.EventBackupFailed), End: types(mesh.EventBackupRecovered), Repeat: remindWarning},
		{Name: "backup-unproven", Severity: mesh.Critical, What: "a backup does not restore",
			Raise: types(mesh.EventBackupUnproven), End: types(mesh.EventBackupRecovered), Repeat: remindWarning},
		{Name: "bot-down", Severity: mesh.Warning, What: "the Telegram bot does not work",
			Advice: "meshctl admin bot status says why", Raise: types(mesh.EventBotDown), End: types(mesh.EventBotUp),
			Clear: defaultClear, Repeat: remindWarning},
		{Name: "bot-token-used-elsewhere", Severity: mesh.Critical, What: "somebody else uses the token of the Telegram bot",
			Advice: "revoke the token at BotFather and give all servers the new one", Raise: types(mesh.EventBotTokenShared), End: types(mesh.EventBotUp),
			Clear: defaultClear, Repeat: remindCritical},
		{Name: "cell-unreachable", Severity: mesh.Critical, What: "entries do not reach the cores of a cell",
			Raise: types(mesh.EventCellUnreachable), End: types(mesh.EventCellReachable), Clear: defaultClear, Repeat: remindCritical},
		{Name: "cert-order-failed", Severity: mesh.Warning, What: "a certificate that clients see could not be ordered",
			// Of an account nobody says that it is well again. What is not ordered in
			// time is near its end before long.
			Raise: types(mesh.EventCertOrderFailed), End: types(mesh.EventCertOrdered), Lasts: day},
	}
}

// happenings are worth a message by themselves; nobody waits for their end.
func happenings() []Rule {
	types := func(t ...mesh.EventType) []mesh.EventType { return t }
	return []Rule{
		{Name: "address-refused", Severity: mesh.Warning, What: "a core wants to be reached where no core may be",
			Raise: types(mesh.EventAddressRefused), Lasts: time.Hour},
		{Name: "audit-broken", Severity: mesh.Critical, What: "the chain over the audit log is broken",
			Advice: "somebody has changed the store: docs/runbook/audit.md", Raise: types(mesh.EventAuditBroken), Lasts: day, Repeat: remindCritical},
		{Name: "backup-readers", Severity: mesh.Warning, What: "who can read backups was changed",
			Raise: types(mesh.EventBackupReaders), Lasts: time.Hour},
		{Name: "clock-off", Severity: mesh.Warning, What: "the clock of a node is wrong",
			Raise: types(mesh.EventClockOff), Lasts: time.Hour},
		{Name: "config-refused", Severity: mesh.Warning, What: "a node refuses what it was sent",
			Raise: types(mesh.EventConfigRefused), Lasts: time.Hour},
		{Name: "duplicate-node", Severity: mesh.Critical, What: "two nodes have one identity",
			Raise: types(mesh.EventDuplicateNode), Lasts: time.Hour},
		{Name: "epoch-forged", Severity: mesh.Critical, What: "the epoch of the mesh was changed without the root",
			Raise: types(mesh.EventEpochForged), Lasts: day, Repeat: remindCritical},
		{Name: "mesh-restored", Severity: mesh.Critical, What: "the mesh was restored from a backup",
			Raise: types(mesh.EventMeshRestored), Lasts: day},
		{Name: "meter-drift", Severity: mesh.Warning, What: "a core counts other traffic than entries brought it",
			Raise: types(mesh.EventMeterDrift), Lasts: day},
		{Name: "node-misbehaved", Severity: mesh.Warning, What: "a node breaks the rules of the protocol",
			Raise: types(mesh.EventNodeMisbehaved), Lasts: time.Hour},
		{Name: "notices-dropped", Severity: mesh.Warning, What: "notices could not be sent within a day and were dropped",
			Raise: types(mesh.EventNoticesDropped), Lasts: day, As: Everything},
		{Name: "route-probing", Severity: mesh.Warning, What: "somebody tries server names at an entry",
			Raise: types(mesh.EventRouteProbing), Lasts: time.Hour},
		{Name: "server-removed", Severity: mesh.Warning, What: "a management server was removed",
			Raise: types(mesh.EventServerRemoved), Lasts: time.Hour},
		{Name: "store-nearly-full", Severity: mesh.Critical, What: "etcd is nearly full",
			Raise: types(mesh.EventStoreNearlyFull), Lasts: 25 * time.Hour, Repeat: day,
			Expr: "meshctl_mgmt_store_quota_bytes > 0 and meshctl_mgmt_store_bytes > 0.8 * meshctl_mgmt_store_quota_bytes"},
		{Name: "token-guess", Severity: mesh.Warning, What: "somebody presents join tokens that do not exist",
			Raise: types(mesh.EventTokenGuess), Lasts: time.Hour, Least: 3, As: Everything},
		{Name: "token-reused", Severity: mesh.Critical, What: "a used join token is in the hands of somebody else",
			Raise: types(mesh.EventTokenReused), Lasts: day},
	}
}
