// Package chores is work that a management server leaves to a child process of
// its own, `meshctl mgmt aux`, and both sides of it. Libraries of others run
// there, and what they break is the child.
//
//	mgmt serve                                 mgmt aux
//	Foreman ── Orders: jobs of the leader ──▶  Work
//	        ◀─ Report: each second ──────────
//	        ◀─ Draft, Allow, Proof ──────────  of backups, see Backup
//	        ◀─ Notices, Sent ────────────────  of the bot and webhooks, see Outbox
//	        ── Asks ─▶ ◀─ Answer ────────────  about clusters, see AskKube
//
// Certificates of public authorities are the third job: see Certs. Clusters that
// entries run in are another: see Kube.
//
// Jobs are done once in the mesh: the foreman of the server that holds the
// office orders them, and takes them back when it loses the office or the mesh
// is not well. A child that is silent, or does not take up its orders, is killed
// and another one started. Jobs do not wait for each other. Asks are no job: the
// child of any server answers them, whoever leads.
//
// The child has no key of the mesh, no certificate and no file of the server's
// but its clone of the backups. It has what its orders say: the URL to ping, and
// how to log in where backups go and to clusters, the token of the bot, in memory
// alone. It calls its server over a socket without a name: the methods of its jobs,
// which tell it nothing that is not in a backup's repository, and those of the Admin
// service that the bot may call for a Telegram user, who must be entitled to them.
package chores
