// Package adminsvc answers every method of the Admin service: it checks what an
// administrator asks, makes each change one audited transaction, and shows
// objects without their secrets. Who calls, and whether the role suffices, the
// server's interceptor has decided before (admin.CallerFrom).
package adminsvc

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/big"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/subscription"
)

// Authority is what the handlers need of the CA.
type Authority interface {
	SignRevocation(mesh.Revocation) (mesh.SignedRevocation, error)
	CRL(number *big.Int, revoked []ca.RevokedCert, now, next time.Time) ([]byte, error)
}

// Servers is what the handlers need of the management cluster.
type Servers interface {
	// Lines are the servers as this one sees them.
	Lines(context.Context) ([]admin.ServerLine, error)
	// Remove takes a server's etcd member out. It returns ErrUnavailable when the
	// rest would be no quorum.
	Remove(context.Context, mesh.Server) error
	// MoveLeader hands etcd's leadership to a member.
	MoveLeader(ctx context.Context, member string) error
	// OpenRoot returns ErrDenied for a wrong passphrase.
	OpenRoot(passphrase mesh.Secret) (*ca.Root, error)
	// Requested is the key a joining server wants signed, PKIX; ErrNotFound
	// before it has asked. Signed says whether it was.
	Requested(tx *store.Tx, s mesh.ServerID) ([]byte, error)
	Signed(tx *store.Tx, s mesh.ServerID) (bool, error)
	Sign(tx *store.Tx, s mesh.ServerID, intermediate []byte) error
	// NewGossipKey replaces the key of gossip, which who is removed has.
	NewGossipKey(tx *store.Tx) error
	// Rekey takes a step towards another data key. It is called again and again.
	Rekey(context.Context, store.By) (admin.RekeyProgress, error)
}

// Service has a handler for every method in admin.Table.
type Service struct {
	Store *store.Store
	CA    Authority
	// ServerStatus describes this server.
	ServerStatus func(context.Context) (admin.ServerStatus, error)
	// WaitServed returns when every route that a device's cores allow has been
	// written, or when ctx ends. nil: nobody is waited for.
	WaitServed func(context.Context, mesh.DeviceID) error
	// NewCellCA makes the authority of a private cell: certificate and key as
	// PEM. nil: ca.NewCellCA.
	NewCellCA func(suffix mesh.ServerName, now time.Time) (string, mesh.Secret, error)
	// Explain says what a device's client would be served by the subscription
	// service of this server. nil: there is none.
	Explain func(id mesh.DeviceID, userAgent, accept, format string) (subscription.Explanation, error)
	// SubCertificate is the one that the subscription service of this server shows;
	// it returns nil while there is none. nil: it never has one.
	SubCertificate func() *tls.Certificate
	// Servers keeps the management servers together.
	Servers Servers
	// Kubes are the clusters that entries run in.
	Kubes Kubes
	// Resolver looks up names of clusters; nil: this machine's.
	Resolver Resolver
	Mesh     mesh.ID
	Server   mesh.ServerID
	RootHash [32]byte // SHA-256 of the root certificate, for join tokens
	Version  string
	Log      *slog.Logger
	Now      func() time.Time // nil: time.Now
}

// Bindings are the handlers of all methods, for admin.Serve.
func (s *Service) Bindings() []admin.Binding {
	return append(s.kubeBindings(),
		admin.StatusGet.Handle(s.statusGet),
		admin.ServerStatusGet.Handle(s.serverStatusGet),

		admin.MemberList.Handle(s.memberList),
		admin.MemberGet.Handle(s.memberGet),
		admin.MemberAdd.Handle(s.memberAdd),
		admin.MemberSet.Handle(s.memberSet),
		admin.MemberRemove.Handle(s.memberRemove),

		admin.DeviceList.Handle(s.deviceList),
		admin.DeviceGet.Handle(s.deviceGet),
		admin.DeviceAdd.Handle(s.deviceAdd),
		admin.DeviceSet.Handle(s.deviceSet),
		admin.DeviceRevoke.Handle(s.deviceRevoke),
		admin.DeviceRemove.Handle(s.deviceRemove),
		admin.DeviceLinkOf.Handle(s.deviceLinkOf),
		admin.DeviceSubscribe.Handle(s.deviceSubscribe),
		admin.DeviceRotate.Handle(s.deviceRotate),
		admin.DeviceResetTraffic.Handle(s.deviceResetTraffic),

		admin.CellList.Handle(s.cellList),
		admin.CellGet.Handle(s.cellGet),
		admin.CellAdd.Handle(s.cellAdd),
		admin.CellSet.Handle(s.cellSet),
		admin.CellRemove.Handle(s.cellRemove),
		admin.CellCAOf.Handle(s.cellCAOf),
		admin.CellRequests.Handle(s.cellRequests),
		admin.CellCertify.Handle(s.cellCertify),

		admin.ACMEGet.Handle(s.acmeGet),
		admin.ACMESet.Handle(s.acmeSet),
		admin.ACMEOrder.Handle(s.acmeOrder),
		admin.ACMERemove.Handle(s.acmeRemove),
		admin.CellRotate.Handle(s.cellRotate),
		admin.CellForecastOf.Handle(s.cellForecastOf),

		admin.CoreList.Handle(s.coreList),
		admin.CoreGet.Handle(s.coreGet),
		admin.CoreSet.Handle(s.coreSet),
		admin.CoreRevoke.Handle(s.coreRevoke),
		admin.CoreRemove.Handle(s.coreRemove),

		admin.EntryList.Handle(s.entryList),
		admin.EntryGet.Handle(s.entryGet),
		admin.EntryRename.Handle(s.entryRename),
		admin.EntryRevoke.Handle(s.entryRevoke),
		admin.EntryRemove.Handle(s.entryRemove),

		admin.TokenCreate.Handle(s.tokenCreate),
		admin.TokenList.Handle(s.tokenList),
		admin.TokenGet.Handle(s.tokenGet),
		admin.TokenRevoke.Handle(s.tokenRevoke),

		admin.RouteGet.Handle(s.routeGet),

		admin.CertList.Handle(s.certList),
		admin.CertGet.Handle(s.certGet),
		admin.CertRevoke.Handle(s.certRevoke),
		admin.CertCRL.Handle(s.certCRL),

		admin.EventList.Handle(s.eventList),
		admin.AuditList.Handle(s.auditList),
		admin.AuditVerify.Handle(s.auditVerify),

		admin.EventFollow.Handle(s.eventFollow),
		admin.AlertList.Handle(s.alertList),
		admin.AlertGet.Handle(s.alertGet),
		admin.AlertAck.Handle(s.alertAck),
		admin.AlertMute.Handle(s.alertMute),
		admin.AlertUnmute.Handle(s.alertUnmute),
		admin.AlertMutes.Handle(s.alertMutes),
		admin.AlertRules.Handle(s.alertRules),
		admin.AlertRuleSet.Handle(s.alertRuleSet),
		admin.WebhookAdd.Handle(s.webhookAdd),
		admin.WebhookList.Handle(s.webhookList),
		admin.WebhookRemove.Handle(s.webhookRemove),
		admin.WebhookTest.Handle(s.webhookTest),

		admin.AdminList.Handle(s.adminList),
		admin.AdminGet.Handle(s.adminGet),
		admin.AdminSet.Handle(s.adminSet),
		admin.AdminRevoke.Handle(s.adminRevoke),

		admin.MgmtList.Handle(s.mgmtList),
		admin.MgmtAdd.Handle(s.mgmtAdd),
		admin.MgmtSign.Handle(s.mgmtSign),
		admin.MgmtRemove.Handle(s.mgmtRemove),
		admin.MgmtMoveLeader.Handle(s.mgmtMoveLeader),
		admin.SecretsRekey.Handle(s.secretsRekey),

		admin.SubStatusGet.Handle(s.subStatusGet),
		admin.SubExplain.Handle(s.subExplain),
		admin.SubRuleList.Handle(s.subRuleList),
		admin.SubRuleAdd.Handle(s.subRuleAdd),
		admin.SubRuleRemove.Handle(s.subRuleRemove),

		admin.ConfigGet.Handle(s.configGet),
		admin.ConfigSet.Handle(s.configSet),

		admin.BackupGet.Handle(s.backupGet),
		admin.BackupRun.Handle(s.backupRun),
		admin.BackupVerify.Handle(s.backupVerify),
		admin.BackupSet.Handle(s.backupSet),
		admin.BackupRemoteAdd.Handle(s.backupRemoteAdd),
		admin.BackupRemoteRemove.Handle(s.backupRemoteRemove),
		admin.BackupRemoteSettle.Handle(s.backupRemoteSettle),
		admin.BackupRecipientAdd.Handle(s.backupRecipientAdd),
		admin.BackupRecipientRemove.Handle(s.backupRecipientRemove),
		admin.BackupRevert.Handle(s.backupRevert),
	)
}

func (s *Service) now() time.Time {
	if s.Now != nil {
		return s.Now().UTC()
	}
	return time.Now().UTC()
}

// change makes one audited transaction in the caller's name. fn may run again.
func (s *Service) change(ctx context.Context, action string, fn func(*store.Tx) error) error {
	c := admin.CallerFrom(ctx)
	if c.Actor == "" {
		return fmt.Errorf("admin: %s: nobody is named as the caller: %w", action, mesh.ErrDenied)
	}
	_, err := s.Store.Change(ctx, store.By{Actor: c.Actor, Request: c.Request, Via: c.Via}, action, fn)
	return err
}
