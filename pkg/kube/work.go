package kube

import (
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// API is how the API of a cluster is reached.
type API struct {
	Server     string // URL
	CA         string // PEM; "": the system's
	ServerName string // "": the host of Server
	Auth       mesh.KubeAuth
	Credential mesh.Secret
	Namespace  string
}

// Object is a Kubernetes object as JSON has it.
type Object map[string]any

// Epoch orders those who write to a cluster: the later epoch of the mesh goes
// before, and in the same one the later leader.
type Epoch struct{ Mesh, Leader int64 }

// Work is what is to be so in one cluster. An empty Objects takes away what there
// is of ours.
type Work struct {
	Cluster mesh.KubeID
	API     API
	Mesh    mesh.ID
	Epoch   Epoch
	Objects []Object
	Release int64 // that Objects are of
	// Mark is what an Observation has to have to be of this work: of this connection,
	// and of this removal.
	Mark string
}

// Failure is why the API gave no good answer.
type Failure string

// Failures.
const (
	NoFailure   Failure = ""
	Unreachable Failure = "unreachable" // no connection, or no answer in time
	Untrusted   Failure = "untrusted"   // its certificate is not of the CA
	Credential  Failure = "credential"  // it does not know the credential, or that has ended (401)
	Denied      Failure = "denied"      // it does not permit what is needed (403)
	Limited     Failure = "limited"     // it wants to be left alone for a while (429)
	Broken      Failure = "broken"      // an answer that is its own fault (5xx)
	Foreign     Failure = "foreign"     // what is there is not ours
	Other       Failure = "other"
)

// Observation is how a cluster is.
type Observation struct {
	Cluster mesh.KubeID `json:"cluster"`
	Release int64       `json:"release"` // of the work that it is about
	Mark    string      `json:"mark,omitzero"`
	At      time.Time   `json:"at"`
	Failure Failure     `json:"failure,omitzero"`
	Detail  string      `json:"detail,omitzero"`
	Version string      `json:"version,omitzero"`
	// NamespaceUID is which namespace it is; "" as long as that is not known.
	NamespaceUID string `json:"namespaceUID,omitzero"`
	// Stale: somebody with a later epoch writes, and this one has stopped.
	Stale bool `json:"stale,omitzero"`
	// Applied: every object was accepted. Removed: nothing of ours is left.
	Applied bool `json:"applied,omitzero"`
	Removed bool `json:"removed,omitzero"`
	// Swept is what was removed since the last one while nothing is wanted.
	Swept []string `json:"swept,omitzero"`
	// The pods' controller: how many there should be, are of the release, are
	// ready of these, and are of earlier ones.
	Desired int  `json:"desired,omitzero"`
	Updated int  `json:"updated,omitzero"`
	Ready   int  `json:"ready,omitzero"`
	Old     int  `json:"old,omitzero"`
	Earlier int  `json:"earlier,omitzero"` // of Old, those that are not ending
	Paused  bool `json:"paused,omitzero"`
	// Stuck: the rolling update made no progress for its deadline; Why names the
	// pod, the reason and the last lines of its log.
	Stuck bool   `json:"stuck,omitzero"`
	Why   string `json:"why,omitzero"`
	// Pods are at most mesh.MaxKubePods, those first that are not well; of the others
	// More has the UIDs. Tally counts all of them.
	Pods      []mesh.KubePod      `json:"pods,omitzero"`
	More      []string            `json:"more,omitzero"`
	Tally     mesh.KubeTally      `json:"tally,omitzero"`
	Conflicts []mesh.KubeConflict `json:"conflicts,omitzero"`
	Problems  []string            `json:"problems,omitzero"`
	// Drift is what others had changed and was put right since the last one.
	Drift []string `json:"drift,omitzero"`
	// Addresses are those that the cluster says; whether they answer is not known.
	Addresses []mesh.KubeAddress `json:"addresses,omitzero"`
}

// AskKind is a kind of question.
type AskKind string

// Questions.
const (
	AskCheck AskKind = "check" // version, and what the credential may
	AskPlan  AskKind = "plan"  // what applying the objects would change
)

// Ask is a question about a cluster that changes nothing there.
type Ask struct {
	Kind    AskKind
	API     API
	Mesh    mesh.ID
	Cluster mesh.KubeID
	Objects []Object
}

// Answer is the answer to it.
type Answer struct {
	Failure Failure  `json:"failure,omitzero"`
	Detail  string   `json:"detail,omitzero"`
	Version string   `json:"version,omitzero"`
	Missing []string `json:"missing,omitzero"` // rights: "create pods in NAMESPACE"
	// NamespaceUID is which namespace it is that the connection leads to.
	NamespaceUID string `json:"namespaceUID,omitzero"`
	// Unguarded: the namespace lets pods in that want more than entries do.
	Unguarded bool     `json:"unguarded,omitzero"`
	Changes   []Change `json:"changes,omitzero"`
}

// Change is what applying one object would do.
type Change struct {
	Object    string              `json:"object"` // Kind/name
	Action    ChangeAction        `json:"action"`
	Diff      string              `json:"diff,omitzero"` // unified, of the YAML
	Conflicts []mesh.KubeConflict `json:"conflicts,omitzero"`
}

// ChangeAction is what would happen to an object.
type ChangeAction string

// What can happen.
const (
	Create ChangeAction = "create"
	Update ChangeAction = "update"
	Remove ChangeAction = "remove"
	Keep   ChangeAction = "keep"
)
