package store

import (
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// kind is what the store knows about a folder.
type kind struct {
	folder  string
	name    string   // singular, as audit and events name objects
	audited bool     // written by Change alone
	sealed  bool     // written by transactions themselves
	secret  []string // members that audit never shows, at the top level
}

func (s *Store) collections() {
	s.Members = &Collection[mesh.MemberID, mesh.Member]{s: s,
		kind:  kind{folder: folderMembers, name: "member", audited: true},
		id:    func(m mesh.Member) mesh.MemberID { return m.ID },
		names: func(m mesh.Member) []label { return []label{{folderMembers, m.Name}} }}
	s.Devices = &Collection[mesh.DeviceID, mesh.Device]{s: s,
		kind:  kind{folder: folderDevices, name: "device", audited: true, secret: []string{"verifiers", "subscription"}},
		id:    func(d mesh.Device) mesh.DeviceID { return d.ID },
		names: func(d mesh.Device) []label { return []label{{deviceNames(d.Member), d.Name}} }}
	s.Cells = &Collection[mesh.CellID, mesh.Cell]{s: s,
		kind: kind{folder: folderCells, name: "cell", audited: true, secret: []string{"paths"}},
		id:   func(c mesh.Cell) mesh.CellID { return c.ID },
		names: func(c mesh.Cell) []label {
			return []label{{folderCells, c.Name}, {folderSuffixes, string(c.Suffix)}}
		},
		check: checkSuffix}
	s.Cores = &Collection[mesh.CoreID, mesh.Core]{s: s,
		kind:  kind{folder: folderCores, name: "core", audited: true},
		id:    func(c mesh.Core) mesh.CoreID { return c.ID },
		names: func(c mesh.Core) []label { return []label{{folderCores, c.Name}} }}
	s.Entries = &Collection[mesh.EntryID, mesh.Entry]{s: s,
		kind:  kind{folder: folderEntries, name: "entry", audited: true},
		id:    func(e mesh.Entry) mesh.EntryID { return e.ID },
		names: func(e mesh.Entry) []label { return []label{{folderEntries, e.Name}} }}
	s.Admins = &Collection[mesh.AdminID, mesh.Administrator]{s: s,
		kind:  kind{folder: folderAdmins, name: "admin", audited: true},
		id:    func(a mesh.Administrator) mesh.AdminID { return a.ID },
		names: func(a mesh.Administrator) []label { return []label{{folderAdmins, a.Name}} }}
	s.Servers = &Collection[mesh.ServerID, mesh.Server]{s: s,
		kind: kind{folder: folderServers, name: "server", audited: true},
		id:   func(v mesh.Server) mesh.ServerID { return v.ID },
		names: func(v mesh.Server) []label {
			if v.State == mesh.ServerRemoved {
				return nil // the machine that takes its place may have its name
			}
			return []label{{folderServers, v.Name}}
		}}
	s.Tokens = &Collection[mesh.TokenID, mesh.Token]{s: s,
		kind: kind{folder: folderTokens, name: "token", audited: true, secret: []string{"hash"}},
		id:   func(t mesh.Token) mesh.TokenID { return t.ID }}
	s.nameless()
}

// nameless kinds have no label of their own.
func (s *Store) nameless() {
	s.Revocations = &Collection[string, mesh.SignedRevocation]{s: s,
		kind: kind{folder: folderRevocations, name: "revocation", audited: true,
			secret: []string{"payload", "signature", "signer"}}, // long, and said by the record
		id: func(r mesh.SignedRevocation) string { return r.Record.ID }}
	s.Config = &Collection[string, mesh.Config]{s: s,
		kind: kind{folder: folderConfig, name: "config", audited: true,
			secret: []string{"epochProof"}}, // long, and said by the epoch
		check: checkConfig}
	s.CA = &Collection[string, Blob]{s: s,
		kind: kind{folder: folderCA, name: "ca", audited: true, secret: []string{"data"}}}
	s.Backup = &Collection[string, mesh.BackupSettings]{s: s,
		kind: kind{folder: folderBackup, name: "backup", audited: true}}
	s.CellCerts = &Collection[mesh.CoreID, mesh.CellCert]{s: s,
		kind: kind{folder: folderCellCerts, name: "cell certificate", secret: []string{"order"}}, // long
		id:   func(c mesh.CellCert) mesh.CoreID { return c.Core }}
	s.ACME = &Collection[string, mesh.ACMESettings]{s: s,
		kind: kind{folder: folderACME, name: "acme", audited: true, secret: []string{"roots"}}} // long
	s.ACMEState = &Collection[string, mesh.ACMEState]{s: s,
		kind: kind{folder: folderACMEState, name: "acme state"}}
	s.SubCert = &Collection[string, mesh.SubscriptionCert]{s: s,
		kind: kind{folder: folderSubCert, name: "subscription certificate", secret: []string{"order"}}} // long
	s.BackupState = &Collection[string, mesh.BackupState]{s: s,
		kind: kind{folder: folderBackupState, name: "backup state"}}
	s.Certs = &Collection[string, mesh.CertRecord]{s: s,
		kind: kind{folder: folderCerts, name: "cert"},
		id:   func(c mesh.CertRecord) string { return c.Serial }}
	s.Routes = &Collection[mesh.ServerName, mesh.Route]{s: s,
		kind: kind{folder: folderRoutes, name: "route"},
		id:   func(r mesh.Route) mesh.ServerName { return r.Name }}
	s.Targets = &Collection[string, mesh.Target]{s: s,
		kind: kind{folder: folderTargets, name: "target"},
		id:   func(t mesh.Target) string { return t.ID }}
	s.Spent = &Collection[string, mesh.Spent]{s: s,
		kind: kind{folder: folderSpent, name: "spent"},
		id:   func(v mesh.Spent) string { return v.ID }}
	s.Rollouts = &Collection[string, mesh.Rollout]{s: s,
		kind: kind{folder: folderRollouts, name: "rollout"},
		id:   func(r mesh.Rollout) string { return r.Group }}
	s.Hours = &Collection[string, mesh.MeterHour]{s: s,
		kind: kind{folder: folderHours, name: "hour"}}
	s.Totals = &Collection[string, mesh.TrafficTotals]{s: s,
		kind: kind{folder: folderTotals, name: "totals"}}
	s.Progress = &Collection[string, mesh.TrafficProgress]{s: s,
		kind: kind{folder: folderProgress, name: "progress"}}
	s.Status = &Collection[string, mesh.NodeStatus]{s: s,
		kind: kind{folder: folderStatus, name: "status"},
		id:   func(n mesh.NodeStatus) string { return n.Node }}
	s.Events = &Collection[string, mesh.Event]{s: s,
		kind: kind{folder: folderEvents, name: "event", sealed: true}}
	s.Audit = &Collection[string, mesh.AuditRecord]{s: s,
		kind: kind{folder: folderAudit, name: "audit", sealed: true}}
	s.AuditChain = &Collection[string, mesh.AuditSegment]{s: s,
		kind: kind{folder: folderAuditChain, name: "audit segment", sealed: true},
		id:   func(v mesh.AuditSegment) string { return v.ID }}
	s.watching()
	s.clusters()
	s.telling()
}

// clusters are the kinds of the entry layer on Kubernetes.
func (s *Store) clusters() {
	s.Kubes = &Collection[mesh.KubeID, mesh.KubeCluster]{s: s,
		kind:  kind{folder: folderKubes, name: "kube", audited: true, secret: []string{"ca", "earlier"}}, // long
		id:    func(v mesh.KubeCluster) mesh.KubeID { return v.ID },
		names: func(v mesh.KubeCluster) []label { return []label{{folderKubes, v.Name}} }}
	s.KubeStates = &Collection[mesh.KubeID, mesh.KubeState]{s: s,
		kind: kind{folder: folderKubeState, name: "kube state"},
		id:   func(v mesh.KubeState) mesh.KubeID { return v.Cluster }}
}

// watching are the kinds of what is seen of the way from entries to cores.
func (s *Store) watching() {
	s.Reach = &Collection[mesh.EntryID, mesh.EntryReach]{s: s,
		kind: kind{folder: folderReach, name: "reach"},
		id:   func(v mesh.EntryReach) mesh.EntryID { return v.Entry }}
	s.CellWatch = &Collection[mesh.CellID, mesh.CellWatch]{s: s,
		kind: kind{folder: folderCellWatch, name: "cell watch"},
		id:   func(v mesh.CellWatch) mesh.CellID { return v.Cell }}
	s.CellUsage = &Collection[mesh.CellID, mesh.CellUsage]{s: s,
		kind: kind{folder: folderCellUsage, name: "cell usage"},
		id:   func(v mesh.CellUsage) mesh.CellID { return v.Cell }}
	s.Relayed = &Collection[mesh.EntryID, mesh.EntryRelayed]{s: s,
		kind: kind{folder: folderRelayed, name: "relayed"},
		id:   func(v mesh.EntryRelayed) mesh.EntryID { return v.Entry }}
	s.MeterAudit = &Collection[string, mesh.MeterAudit]{s: s,
		kind: kind{folder: folderMeterAudit, name: "meter audit"}}
}

// telling are the kinds of what people are told, and who they are.
func (s *Store) telling() {
	s.Alerts = &Collection[string, mesh.Alert]{s: s,
		kind: kind{folder: folderAlerts, name: "alert"},
		id:   func(v mesh.Alert) string { return v.ID }}
	s.Hooks = &Collection[string, mesh.Webhook]{s: s,
		kind: kind{folder: folderHooks, name: "hook", audited: true, secret: []string{"url", "secret"}},
		id:   func(v mesh.Webhook) string { return v.Name }}
	s.HookStates = &Collection[string, mesh.HookState]{s: s,
		kind: kind{folder: folderHookState, name: "hook state"},
		id:   func(v mesh.HookState) string { return v.Name }}
	s.Outbox = &Collection[string, mesh.Notice]{s: s,
		kind: kind{folder: folderOutbox, name: "notice"},
		id:   func(v mesh.Notice) string { return v.ID }}
	s.Telegram = &Collection[mesh.TelegramUserID, mesh.TelegramUser]{s: s,
		kind:  kind{folder: folderTelegram, name: "telegram", audited: true},
		id:    func(v mesh.TelegramUser) mesh.TelegramUserID { return v.ID },
		names: func(v mesh.TelegramUser) []label { return []label{{folderTelegram, v.Telegram}} }}
	s.TelegramCodes = &Collection[string, mesh.TelegramCode]{s: s,
		kind: kind{folder: folderCodes, name: "telegram code", audited: true},
		id:   func(v mesh.TelegramCode) string { return v.ID }}
	s.Chats = &Collection[string, mesh.TelegramChat]{s: s,
		kind: kind{folder: folderChats, name: "chat"},
		id:   func(v mesh.TelegramChat) string { return v.ID }}
	s.Threads = &Collection[string, mesh.TelegramThread]{s: s,
		kind: kind{folder: folderThreads, name: "thread"},
		id:   func(v mesh.TelegramThread) string { return v.ID }}
	s.BotState = &Collection[string, mesh.BotState]{s: s,
		kind: kind{folder: folderBotState, name: "bot state"}}
	s.Shown = &Collection[mesh.TokenID, mesh.TelegramShown]{s: s,
		kind: kind{folder: folderShown, name: "shown token"},
		id:   func(v mesh.TelegramShown) mesh.TokenID { return v.Token }}
}

// checkSuffix refuses a suffix that is not folded, and one at, above or below
// the suffix of another cell: one name must never belong to two cells.
func checkSuffix(tx *Tx, before *mesh.Cell, after mesh.Cell) error {
	if before != nil && before.Suffix == after.Suffix {
		return nil
	}
	if n, err := mesh.ParseServerName(string(after.Suffix)); err != nil || n != after.Suffix {
		return fmt.Errorf("suffix %q: want a folded DNS name: %w", mesh.Quotable(string(after.Suffix)), mesh.ErrInvalid)
	}
	service, err := serviceName(tx)
	if err != nil {
		return err
	}
	if err := apart(service, after.Suffix); err != nil {
		return err
	}
	cells, err := List(tx, tx.s.Cells)
	if err != nil {
		return err
	}
	for _, c := range cells {
		if c.ID != after.ID && overlap(c.Suffix, after.Suffix) {
			return fmt.Errorf("suffix %s overlaps %s of cell %s: %w", after.Suffix, c.Suffix, c.ID, mesh.ErrExists)
		}
	}
	return nil
}
