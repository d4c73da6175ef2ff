package admin

import (
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// KubeView is a Kubernetes cluster as shown, without its credential.
type KubeView struct {
	ID         mesh.KubeID   `json:"id"`
	Name       string        `json:"name"`
	Server     string        `json:"server"`
	ServerName string        `json:"serverName,omitzero"`
	Auth       mesh.KubeAuth `json:"auth"`
	Ends       time.Time     `json:"ends,omitzero"` // of the credential
	Namespace  string        `json:"namespace"`
	// NamespaceUID is which namespace that is; "" before the cluster was asked.
	NamespaceUID string              `json:"namespaceUID,omitzero"`
	Added        time.Time           `json:"added"`
	Wanted       mesh.EntryRelease   `json:"wanted,omitzero"`
	Earlier      []mesh.EntryRelease `json:"earlier,omitzero"`
	Paused       bool                `json:"paused,omitzero"`
	Removing     bool                `json:"removing,omitzero"`
	// State is nil before somebody looked at the cluster.
	State *mesh.KubeState `json:"state,omitzero"`
	// Entries are those that are pods of this cluster, by pod UID.
	Entries map[string]EntryView `json:"entries,omitzero"`
	// Note is what whoever made a change should know of it, in words.
	Note string `json:"note,omitzero"`
}

// Runs is the release that is to run now: the one that is wanted, or what was put
// back when that failed; the zero value is none.
func (v KubeView) Runs() mesh.EntryRelease {
	c := mesh.KubeCluster{Wanted: v.Wanted, Earlier: v.Earlier, Removing: v.Removing}
	if v.State == nil {
		return c.Ordered(mesh.KubeState{})
	}
	return c.Ordered(*v.State)
}

// KubeLine is a cluster in the status of the mesh.
type KubeLine struct {
	Name    string         `json:"name"`
	Contact string         `json:"contact,omitzero"` // as KubeState.Contact
	Wanted  int64          `json:"wanted,omitzero"`  // release; 0: none
	Release int64          `json:"release,omitzero"` // that Phase is of
	Phase   mesh.KubePhase `json:"phase,omitzero"`
	Ready   int            `json:"ready"`
	Desired int            `json:"desired"`
}

// KubeAddRequest adds a cluster. Namespace is where entries will be; "" is the
// default.
type KubeAddRequest struct {
	Name string `json:"name"`
	KubeConnection
	Namespace string `json:"namespace,omitzero"`
	// Unchecked adds it although it does not answer, or does not permit enough.
	Unchecked bool `json:"unchecked,omitzero"`
}

// KubeConnection is how the API of a cluster is reached. CA is PEM, the credential
// a token, or PEM of a certificate and its key.
type KubeConnection struct {
	Server     string        `json:"server"`
	CA         string        `json:"ca,omitzero"`
	ServerName string        `json:"serverName,omitzero"`
	Auth       mesh.KubeAuth `json:"auth"`
	Credential string        `json:"credential"` // secret
}

// KubeSetRequest changes what is not nil. A new connection is checked before it
// replaces the old one, as a whole: no credential goes to a server that it was not
// given for.
type KubeSetRequest struct {
	Ref        string          `json:"ref"`
	Name       *string         `json:"name,omitempty"`
	Connection *KubeConnection `json:"connection,omitempty"`
	Unchecked  bool            `json:"unchecked,omitzero"`
	// Moved takes a connection that leads to another namespace although entries are
	// deployed: the old one is gone, and what was seen of it is forgotten.
	Moved bool `json:"moved,omitzero"`
}

// KubeRemoveRequest forgets a cluster. Abandon leaves alone what is deployed there.
type KubeRemoveRequest struct {
	Ref     string `json:"ref"`
	Abandon bool   `json:"abandon,omitzero"`
}

// KubeRBACRequest names the namespace; "" is the default.
type KubeRBACRequest struct {
	Namespace string `json:"namespace,omitzero"`
}

// KubeManifest is YAML.
type KubeManifest struct {
	YAML string `json:"yaml"`
}

// KubeChecked is how a cluster answered.
type KubeChecked struct {
	Answer kube.Answer `json:"answer"`
}

// EntryDeployRequest makes Layer what is wanted in a cluster. Base is the number of
// the release that Layer was made from, 0 for none; another is refused. With "scale"
// for Why only the number of Layer counts: it becomes that of KubeView.Runs.
type EntryDeployRequest struct {
	Ref   string          `json:"ref"` // of the cluster
	Layer mesh.EntryLayer `json:"layer"`
	Base  int64           `json:"base"`
	Why   string          `json:"why"` // "deploy", "scale" or "image"
}

// EntryPlan is what a deployment would change.
type EntryPlan struct {
	Release int64         `json:"release"` // that it would be
	Changes []kube.Change `json:"changes"`
}

// EntryRolloutRequest pauses, resumes or undoes a rolling update.
type EntryRolloutRequest struct {
	Ref    string `json:"ref"`
	Action string `json:"action"`      // "pause", "resume", "undo"
	To     int64  `json:"to,omitzero"` // undo: the release; 0: the one before that ran
}

// DNSRecords are what is to be in the DNS for the names of entries, and what is.
type DNSRecords struct {
	Records []DNSRecord `json:"records"`
}

// DNSRecord is one name.
type DNSRecord struct {
	Name  string   `json:"name"`
	Type  string   `json:"type"` // A, AAAA or CNAME
	Want  []string `json:"want"`
	Found []string `json:"found,omitzero"`
	Fault string   `json:"fault,omitzero"` // "": it is as it should be
}

// The methods about clusters, and the entries in them. The connection to a cluster
// is an owner's to change.
var (
	KubeList = Method[Page, List[KubeView]]{"KubeList", auditor}
	KubeGet  = Method[Ref, KubeView]{"KubeGet", auditor}
	// KubeLook is KubeGet without Entries, for those who look on: it costs two reads.
	KubeLook   = Method[Ref, KubeView]{"KubeLook", auditor}
	KubeRBACOf = Method[KubeRBACRequest, KubeManifest]{"KubeRBACOf", auditor}
	KubeAdd    = Method[KubeAddRequest, KubeView]{"KubeAdd", owner}
	KubeSet    = Method[KubeSetRequest, KubeView]{"KubeSet", owner}
	KubeRemove = Method[KubeRemoveRequest, None]{"KubeRemove", owner}
	KubeCheck  = Method[Ref, KubeChecked]{"KubeCheck", operator}

	EntryDeploy = Method[EntryDeployRequest, KubeView]{"EntryDeploy", operator}
	// EntryRender is what EntryDeploy would apply, as YAML, EntryPlanOf what that
	// would change there; neither changes anything.
	EntryRender    = Method[EntryDeployRequest, KubeManifest]{"EntryRender", auditor}
	EntryPlanOf    = Method[EntryDeployRequest, EntryPlan]{"EntryPlanOf", operator}
	EntryRollout   = Method[EntryRolloutRequest, KubeView]{"EntryRollout", operator}
	EntryUninstall = Method[Ref, KubeView]{"EntryUninstall", operator}
	// DNSRecordsOf looks at the DNS from the server.
	DNSRecordsOf = Method[None, DNSRecords]{"DNSRecordsOf", auditor}
)
