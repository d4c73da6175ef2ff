package mesh

import (
	"net/netip"
	"time"
)

// KubeCluster is a Kubernetes cluster in which management keeps a layer of
// entries. Changed by operators, and its connection by owners.
type KubeCluster struct {
	ID   KubeID `json:"id"`
	Name string `json:"name"`
	// Server is the URL of the API, and CA whom to trust for it, PEM; "": the
	// system's. ServerName is what its certificate is to name; "": the host.
	Server     string `json:"server"`
	CA         string `json:"ca,omitzero"`
	ServerName string `json:"serverName,omitzero"`
	// Auth says what the credential is: a bearer token, or a client certificate
	// and its key, both PEM.
	Auth       KubeAuth  `json:"auth"`
	Credential Sealed    `json:"credential"`
	Ends       time.Time `json:"ends,omitzero"` // of the credential, when it says so itself
	// Namespace has everything that management keeps there, and nothing else.
	Namespace string `json:"namespace"`
	// NamespaceUID is which namespace of all the world that is, as the cluster says;
	// "" before it was asked.
	NamespaceUID string    `json:"namespaceUID,omitzero"`
	Added        time.Time `json:"added"`
	// Wanted is what is to run, the zero value nothing; Earlier is what was before,
	// oldest first, at most MaxReleases.
	Wanted  EntryRelease   `json:"wanted,omitzero"`
	Earlier []EntryRelease `json:"earlier,omitzero"`
	// Paused keeps the pods of a rolling update as they are.
	Paused bool `json:"paused,omitzero"`
	// Removing takes away what was deployed; Wanted stays until it is gone.
	Removing bool `json:"removing,omitzero"`
	// Removals counts how often that was wanted: the end of one is not that of another.
	Removals int64 `json:"removals,omitzero"`
}

// MaxReleases bounds how far back an undo can go.
const MaxReleases = 10

// KubeAuth is how management logs in to a cluster.
type KubeAuth string

// Ways to log in.
const (
	KubeToken       KubeAuth = "token"
	KubeCertificate KubeAuth = "certificate"
)

// EntryRelease is one thing that was to run in a cluster.
type EntryRelease struct {
	Number int64      `json:"number"` // from 1, without gaps
	Layer  EntryLayer `json:"layer"`
	// Pods is what the pods are labelled with: the first release that had the same
	// ones, so that a change of anything else restarts none (kube.Pods).
	Pods int64     `json:"pods"`
	Made time.Time `json:"made"`
	By   Actor     `json:"by"`
	Why  string    `json:"why"` // "deploy", "scale", "undo of 3", …
	// Failed is of earlier releases: it was parked when another took its place.
	Failed bool `json:"failed,omitzero"`
}

// EntryLayer says what entries there are in a cluster, and how clients reach
// them. Zero values mean the defaults of WithDefaults.
type EntryLayer struct {
	// Image is pulled as it stands; PullSecret is a Secret of the namespace.
	Image      string `json:"image"`
	PullSecret string `json:"pullSecret,omitzero"`
	// Kind is what keeps the pods: so many, or one for each node.
	Kind     EntryKind `json:"kind"`
	Replicas int       `json:"replicas,omitzero"` // of a deployment without Autoscale
	// Autoscale hands the number over to a HorizontalPodAutoscaler.
	Autoscale EntryAutoscale `json:"autoscale,omitzero"`
	Service   EntryService   `json:"service"`
	Resources EntryResources `json:"resources"`
	Limits    EntryLimits    `json:"limits,omitzero"`
	// DrainWait is for balancers to notice that a pod is not ready any more, while
	// it goes on accepting; DrainLimit is how long open connections may go on then.
	DrainWait  Duration `json:"drainWait"`
	DrainLimit Duration `json:"drainLimit"`
	// Deadline is how long a rolling update may make no progress before it has
	// failed.
	Deadline Duration `json:"deadline"`
	// Unavailable is how many pods may be evicted at once.
	Unavailable   int               `json:"unavailable"`
	PriorityClass string            `json:"priorityClass,omitzero"`
	NodeSelector  map[string]string `json:"nodeSelector,omitzero"`
	Tolerations   []EntryToleration `json:"tolerations,omitzero"`
	// OpenNetwork leaves the NetworkPolicy out.
	OpenNetwork bool `json:"openNetwork,omitzero"`
	// DNS are ranges that pods may ask for names, beside the kube-dns of kube-system.
	DNS      []netip.Prefix `json:"dns,omitzero"`
	LogLevel string         `json:"logLevel,omitzero"`
}

// EntryKind is what keeps the pods.
type EntryKind string

// Kinds of it.
const (
	EntryDeployment EntryKind = "deployment"
	EntryDaemonSet  EntryKind = "daemonset"
)

// EntryAutoscale bounds the number of pods; the zero value does not scale.
type EntryAutoscale struct {
	Min int `json:"min"`
	Max int `json:"max"`
	CPU int `json:"cpu"` // percent of the requested CPU
}

// EntryService is how clients reach the pods.
type EntryService struct {
	Type EntryServiceType `json:"type"`
	// Class is spec.loadBalancerClass; "": the cluster's own.
	Class       string            `json:"class,omitzero"`
	Annotations map[string]string `json:"annotations,omitzero"`
	Port        int               `json:"port"`              // that clients dial
	NodePort    int               `json:"nodePort,omitzero"` // 0: the cluster chooses
	// Proxies send a PROXY protocol header: the ranges of the balancers.
	Proxies []netip.Prefix `json:"proxies,omitzero"`
	// Public are addresses, host or host:port, that stand for those that the
	// cluster says: where nodes or balancers are reached under others.
	Public []string `json:"public,omitzero"`
	// Name is a DNS name that leads to them; clients are told it instead while it
	// does.
	Name string `json:"name,omitzero"`
}

// EntryServiceType is a type of Service.
type EntryServiceType string

// Types of it.
const (
	ServiceLoadBalancer EntryServiceType = "loadbalancer"
	ServiceNodePort     EntryServiceType = "nodeport"
)

// EntryResources are as Kubernetes writes quantities: "250m", "128Mi".
type EntryResources struct {
	CPU         string `json:"cpu"`
	Memory      string `json:"memory"`
	MemoryLimit string `json:"memoryLimit"`
}

// EntryLimits are settings of each entry; 0 means the entry's own default.
type EntryLimits struct {
	Connections int `json:"connections,omitzero"`
	PerSource   int `json:"perSource,omitzero"`
	Hellos      int `json:"hellos,omitzero"`
}

// EntryToleration lets pods run on nodes with a taint. "" for Value means that the
// key exists, and "" for Effect any.
type EntryToleration struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitzero"`
	Effect string `json:"effect,omitzero"`
}

// EntryPod is the pod that an entry is.
type EntryPod struct {
	Cluster   KubeID `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Node      string `json:"node,omitzero"`
	// Gone is when the cluster no longer had it.
	Gone time.Time `json:"gone,omitzero"`
}

// KubeState is what was last seen of a cluster, apart from its specification. The
// holder of the office writes it.
type KubeState struct {
	Cluster KubeID   `json:"cluster"`
	Server  ServerID `json:"server"` // whose child looks after it
	// Contact is how the API is reached: "" is well, before the first answer
	// "starting"; the others are of kube.Failure.
	Contact string    `json:"contact,omitzero"`
	Detail  string    `json:"detail,omitzero"` // in the API's own words, bounded
	Since   time.Time `json:"since"`           // of Contact
	Seen    time.Time `json:"seen,omitzero"`   // the last good answer
	Version string    `json:"version,omitzero"`
	// Ran is the last release that was complete, and Parked one that failed, with
	// the reason: what ran before is put back until another is made.
	Ran       int64  `json:"ran,omitzero"`
	Parked    int64  `json:"parked,omitzero"`
	ParkedWhy string `json:"parkedWhy,omitzero"`
	// Rollout is how the release that is wanted, or was put back, goes.
	Rollout KubeRollout `json:"rollout,omitzero"`
	// Lacking says why pods are not there that should be, in the phase of that name.
	Lacking string `json:"lacking,omitzero"`
	// Pods are at most MaxKubePods, those first that are not well; Tally counts all.
	Pods  []KubePod `json:"pods,omitzero"`
	Tally KubeTally `json:"tally,omitzero"`
	// Conflicts are fields that somebody else keeps otherwise.
	Conflicts []KubeConflict `json:"conflicts,omitzero"`
	// Problems are what else keeps the cluster from being as it should, by object.
	Problems  []string      `json:"problems,omitzero"`
	Addresses []KubeAddress `json:"addresses,omitzero"`
	// Policy says whether the cluster keeps pods from what they may not reach.
	Policy KubePolicy `json:"policy,omitzero"`
	// Drift counts what others changed and was put right, since the office began.
	Drift int `json:"drift,omitzero"`
}

// KubeRollout is how far the pods are.
type KubeRollout struct {
	Release int64     `json:"release"`
	Phase   KubePhase `json:"phase"`
	Since   time.Time `json:"since"`   // of the phase
	Moved   time.Time `json:"moved"`   // the last progress
	Desired int       `json:"desired"` // pods that should be
	Updated int       `json:"updated"` // pods that are of the release
	Ready   int       `json:"ready"`   // of these
	Old     int       `json:"old"`     // pods of earlier releases that still serve or drain
}

// KubePhase is where a rolling update is.
type KubePhase string

// Phases of it.
const (
	KubeIdle     KubePhase = "idle" // nothing was deployed
	KubeRolling  KubePhase = "rolling"
	KubePausing  KubePhase = "paused"
	KubeComplete KubePhase = "complete"
	KubeFailed   KubePhase = "failed"
	// KubeLacking: of pods that run well elsewhere there are too few, and no more come.
	KubeLacking  KubePhase = "lacking"
	KubeRemoving KubePhase = "removing"
)

// MaxKubePods is how many pods of a cluster are described one by one.
const MaxKubePods = 200

// KubeTally counts the pods of a cluster.
type KubeTally struct {
	All    int `json:"all"`
	Ready  int `json:"ready"`  // and not ending
	Ending int `json:"ending"` // being deleted: they drain
}

// KubePod is a pod as the cluster describes it.
type KubePod struct {
	Name     string    `json:"name"`
	UID      string    `json:"uid"`
	Node     string    `json:"node,omitzero"`
	HostIP   string    `json:"hostIP,omitzero"`
	IP       string    `json:"ip,omitzero"`
	Release  int64     `json:"release"`
	Ready    bool      `json:"ready,omitzero"`
	Ending   bool      `json:"ending,omitzero"` // being deleted: it drains
	Restarts int       `json:"restarts,omitzero"`
	Reason   string    `json:"reason,omitzero"` // why it is not ready: "ImagePullBackOff: …"
	Started  time.Time `json:"started,omitzero"`
}

// KubeConflict is a field that two managers want otherwise.
type KubeConflict struct {
	Object  string `json:"object"` // Kind/name
	Field   string `json:"field"`
	Manager string `json:"manager"` // the other's name
}

// KubeAddress is where clients reach the entries of a cluster.
type KubeAddress struct {
	Host   string    `json:"host"`
	Port   int       `json:"port"`
	Source string    `json:"source"` // AddressBalancer and the like
	Up     bool      `json:"up,omitzero"`
	Since  time.Time `json:"since"`        // of Up
	Why    string    `json:"why,omitzero"` // it is not up
	Tried  time.Time `json:"tried,omitzero"`
}

// KubePolicy is whether NetworkPolicies are obeyed, as the pods find out.
type KubePolicy string

// What they find.
const (
	PolicyUnknown  KubePolicy = ""
	PolicyEnforced KubePolicy = "enforced"
	PolicyOpen     KubePolicy = "open" // a pod reached what it may not
	PolicyNone     KubePolicy = "none" // the layer has no policy
)
