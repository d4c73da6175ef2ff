package admin

import "github.com/meshctl/meshctl/pkg/mesh"

// Shorthand for the table below.
const (
	owner    = mesh.AdminOwner
	operator = mesh.AdminOperator
	auditor  = mesh.AdminAuditor
)

// The methods. Their roles are the authority table of the service; a method
// that is not in Table is refused by the server and fails a test.
var (
	StatusGet       = Method[None, Status]{"StatusGet", auditor}
	ServerStatusGet = Method[None, ServerStatus]{"ServerStatusGet", auditor}

	MemberList   = Method[Page, List[MemberView]]{"MemberList", auditor}
	MemberGet    = Method[Ref, MemberView]{"MemberGet", auditor}
	MemberAdd    = Method[MemberAddRequest, MemberView]{"MemberAdd", operator}
	MemberSet    = Method[MemberSetRequest, MemberView]{"MemberSet", operator}
	MemberRemove = Method[Ref, None]{"MemberRemove", operator}

	DeviceList   = Method[DeviceListRequest, List[DeviceView]]{"DeviceList", auditor}
	DeviceGet    = Method[Ref, DeviceView]{"DeviceGet", auditor}
	DeviceAdd    = Method[DeviceAddRequest, DeviceView]{"DeviceAdd", operator}
	DeviceSet    = Method[DeviceSetRequest, DeviceView]{"DeviceSet", operator}
	DeviceRevoke = Method[RevokeRequest, DeviceView]{"DeviceRevoke", operator}
	DeviceRemove = Method[Ref, None]{"DeviceRemove", operator}
	DeviceLinkOf = Method[Ref, DeviceLink]{"DeviceLinkOf", operator}
	// DeviceSubscribe makes the link through which a client learns all of that.
	DeviceSubscribe    = Method[DeviceSubscribeRequest, SubscriptionLink]{"DeviceSubscribe", operator}
	DeviceRotate       = Method[DeviceRotateRequest, DeviceView]{"DeviceRotate", operator}
	DeviceResetTraffic = Method[Ref, DeviceView]{"DeviceResetTraffic", operator}

	CellList   = Method[Page, List[CellView]]{"CellList", auditor}
	CellGet    = Method[Ref, CellView]{"CellGet", auditor}
	CellAdd    = Method[CellAddRequest, CellView]{"CellAdd", operator}
	CellSet    = Method[CellSetRequest, CellView]{"CellSet", operator}
	CellRemove = Method[Ref, None]{"CellRemove", operator}
	CellCAOf   = Method[Ref, CellCA]{"CellCAOf", auditor}
	// CellRequests are what cores want certified, CellCertify brings the chains.
	CellRequests = Method[CellRequestsRequest, List[CellRequestView]]{"CellRequests", auditor}
	CellCertify  = Method[CellCertifyRequest, CellCertified]{"CellCertify", operator}

	ACMEGet = Method[None, ACMEView]{"ACMEGet", auditor}
	// ACMESet takes the credential that writes DNS records.
	ACMESet    = Method[ACMESetRequest, ACMEView]{"ACMESet", owner}
	ACMEOrder  = Method[ACMEOrderRequest, ACMEView]{"ACMEOrder", operator}
	ACMERemove = Method[None, None]{"ACMERemove", owner}

	CellRotate = Method[CellRotateRequest, CellView]{"CellRotate", operator}
	// CellForecastOf changes nothing.
	CellForecastOf = Method[CellForecastRequest, CellForecast]{"CellForecastOf", auditor}

	CoreList   = Method[Page, List[CoreView]]{"CoreList", auditor}
	CoreGet    = Method[Ref, CoreView]{"CoreGet", auditor}
	CoreSet    = Method[CoreSetRequest, CoreView]{"CoreSet", operator}
	CoreRevoke = Method[RevokeRequest, CoreView]{"CoreRevoke", operator}
	CoreRemove = Method[Ref, None]{"CoreRemove", operator}

	EntryList   = Method[Page, List[EntryView]]{"EntryList", auditor}
	EntryGet    = Method[Ref, EntryView]{"EntryGet", auditor}
	EntryRename = Method[RenameRequest, EntryView]{"EntryRename", operator}
	EntryRevoke = Method[RevokeRequest, EntryView]{"EntryRevoke", operator}
	EntryRemove = Method[Ref, None]{"EntryRemove", operator}

	// TokenCreate needs owner for mgmt and admin tokens; the handler checks.
	TokenCreate = Method[TokenCreateRequest, TokenCreated]{"TokenCreate", operator}
	TokenList   = Method[Page, List[TokenView]]{"TokenList", auditor}
	TokenGet    = Method[Ref, TokenView]{"TokenGet", auditor}
	TokenRevoke = Method[Ref, TokenView]{"TokenRevoke", operator}

	// RouteGet takes a server name, or a device by id or label.
	RouteGet = Method[Ref, List[RouteView]]{"RouteGet", auditor}

	CertList = Method[CertListRequest, List[CertView]]{"CertList", auditor}
	CertGet  = Method[Ref, CertView]{"CertGet", auditor}
	// CertRevoke needs owner for certificates of servers and administrators; the
	// handler checks.
	CertRevoke = Method[RevokeRequest, CertView]{"CertRevoke", operator}
	CertCRL    = Method[None, CRL]{"CertCRL", auditor}

	EventList = Method[EventListRequest, List[mesh.Event]]{"EventList", auditor}
	// EventFollow waits for what comes.
	EventFollow = Method[EventFollowRequest, EventFollowed]{"EventFollow", auditor}
	AuditList   = Method[AuditListRequest, List[mesh.AuditRecord]]{"AuditList", auditor}
	// AuditVerify answers with what it found, which is no error.
	AuditVerify = Method[AuditVerifyRequest, mesh.AuditReport]{"AuditVerify", auditor}

	AdminList   = Method[Page, List[mesh.Administrator]]{"AdminList", auditor}
	AdminGet    = Method[Ref, mesh.Administrator]{"AdminGet", auditor}
	AdminSet    = Method[AdminSetRequest, mesh.Administrator]{"AdminSet", owner}
	AdminRevoke = Method[RevokeRequest, mesh.Administrator]{"AdminRevoke", owner}

	// What grows and shrinks the management cluster. MgmtAdd and MgmtSign take
	// the root passphrase.
	MgmtList       = Method[Page, List[ServerLine]]{"MgmtList", auditor}
	MgmtAdd        = Method[MgmtAddRequest, MgmtAdded]{"MgmtAdd", owner}
	MgmtSign       = Method[MgmtSignRequest, MgmtProgress]{"MgmtSign", owner}
	MgmtRemove     = Method[RevokeRequest, ServerLine]{"MgmtRemove", owner}
	MgmtMoveLeader = Method[Ref, None]{"MgmtMoveLeader", owner}

	// SecretsRekey takes one step of replacing the data key, and is called until
	// it is done.
	SecretsRekey = Method[None, RekeyProgress]{"SecretsRekey", owner}

	SubStatusGet = Method[None, SubStatus]{"SubStatusGet", auditor}
	SubExplain   = Method[SubExplainRequest, SubExplanation]{"SubExplain", auditor}
	// The operator's own rules first, then those that are built in.
	SubRuleList   = Method[Page, List[SubRule]]{"SubRuleList", auditor}
	SubRuleAdd    = Method[SubRuleAddRequest, SubRule]{"SubRuleAdd", operator}
	SubRuleRemove = Method[SubRuleRemoveRequest, SubRule]{"SubRuleRemove", operator}

	ConfigGet = Method[None, mesh.Config]{"ConfigGet", auditor}
	ConfigSet = Method[ConfigSetRequest, mesh.Config]{"ConfigSet", owner}

	BackupGet = Method[None, BackupView]{"BackupGet", auditor}
	// BackupRun and BackupVerify ask for a backup and for a proof; the state says
	// when it was made.
	BackupRun             = Method[None, BackupView]{"BackupRun", operator}
	BackupVerify          = Method[None, BackupView]{"BackupVerify", operator}
	BackupSet             = Method[BackupSetRequest, BackupView]{"BackupSet", owner}
	BackupRemoteAdd       = Method[BackupRemoteAddRequest, BackupView]{"BackupRemoteAdd", owner}
	BackupRemoteRemove    = Method[Ref, BackupView]{"BackupRemoteRemove", owner}
	BackupRemoteSettle    = Method[Ref, BackupView]{"BackupRemoteSettle", owner}
	BackupRecipientAdd    = Method[BackupRecipientAddRequest, BackupView]{"BackupRecipientAdd", owner}
	BackupRecipientRemove = Method[Ref, BackupView]{"BackupRecipientRemove", owner}
	BackupRevert          = Method[BackupRevertRequest, BackupReverted]{"BackupRevert", owner}
)

type described interface {
	describe() (string, mesh.AdminRole)
}

func (m Method[Req, Resp]) describe() (string, mesh.AdminRole) { return m.FullName(), m.Need }

// Table is method path → least role, default deny.
func Table() map[string]mesh.AdminRole {
	t := make(map[string]mesh.AdminRole)
	for _, m := range []described{
		StatusGet, ServerStatusGet,
		MemberList, MemberGet, MemberAdd, MemberSet, MemberRemove,
		DeviceList, DeviceGet, DeviceAdd, DeviceSet, DeviceRevoke, DeviceRemove, DeviceLinkOf,
		DeviceSubscribe, DeviceRotate, DeviceResetTraffic,
		CellList, CellGet, CellAdd, CellSet, CellRemove, CellCAOf, CellRotate, CellForecastOf,
		CellRequests, CellCertify, ACMEGet, ACMESet, ACMEOrder, ACMERemove,
		CoreList, CoreGet, CoreSet, CoreRevoke, CoreRemove,
		EntryList, EntryGet, EntryRename, EntryRevoke, EntryRemove,
		TokenCreate, TokenList, TokenGet, TokenRevoke,
		RouteGet, CertList, CertGet, CertRevoke, CertCRL,
		EventList, AuditList, AuditVerify,
		EventFollow, AlertList, AlertGet, AlertAck, AlertMute, AlertUnmute, AlertMutes, AlertRules, AlertRuleSet,
		WebhookAdd, WebhookList, WebhookRemove, WebhookTest,
		AdminList, AdminGet, AdminSet, AdminRevoke,
		MgmtList, MgmtAdd, MgmtSign, MgmtRemove, MgmtMoveLeader, SecretsRekey,
		SubStatusGet, SubExplain, SubRuleList, SubRuleAdd, SubRuleRemove,
		ConfigGet, ConfigSet,
		BackupGet, BackupRun, BackupVerify, BackupSet, BackupRemoteAdd, BackupRemoteRemove, BackupRemoteSettle,
		BackupRecipientAdd, BackupRecipientRemove, BackupRevert,
		BotCodeCreate, BotUserList, BotUserSet, BotStatusGet,
		KubeList, KubeGet, KubeLook, KubeRBACOf, KubeAdd, KubeSet, KubeRemove, KubeCheck,
		EntryDeploy, EntryRender, EntryPlanOf, EntryRollout, EntryUninstall, DNSRecordsOf,
	} {
		name, need := m.describe()
		t[name] = need
	}
	return t
}
