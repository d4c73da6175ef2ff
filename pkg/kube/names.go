package kube

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Names of everything that is kept in a cluster.
const (
	// Name is the name of each object of the entry layer, and of the account that
	// its pods run as.
	Name = "meshctl-entry"
	// Account is what management logs in as; its objects are of RBAC.
	Account = "meshctl-manager"
	// DefaultNamespace is where they are when nobody said otherwise.
	DefaultNamespace = "meshctl-entry"
	// FieldManager is the one owner of the fields that we set.
	FieldManager = "meshctl"
	// PriorityClass is the one that RBAC makes for the pods.
	PriorityClass = "meshctl-entry"
)

// Labels and annotations. Selectors have LabelName, LabelComponent, LabelMesh and
// LabelCluster.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelComponent = "app.kubernetes.io/component"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelMesh      = "meshctl.io/mesh"
	LabelCluster   = "meshctl.io/cluster"
	// LabelRelease is of pods alone: EntryRelease.Pods.
	LabelRelease = "meshctl.io/release"
	// AnnotationEpoch is of objects, never of templates: who wrote it.
	AnnotationEpoch = "meshctl.io/epoch"
	// AnnotationConfig is of templates: the hash of the configuration.
	AnnotationConfig = "meshctl.io/config"
	// AnnotationDeadline is of a DaemonSet, which has no such field: after how many
	// seconds without progress a rolling update has failed.
	AnnotationDeadline = "meshctl.io/deadline"
)

// Names inside a pod.
const (
	Container     = "entry"
	clientsPort   = "clients" // the container's port for clients
	healthPort    = "health"
	configKey     = "entry.yaml" // of the ConfigMap: what rolls the pods
	mgmtKey       = "mgmt"       // of the ConfigMap: addresses, changed in place
	clientsNumber = 8443
	healthNumber  = 9602
	configDir     = "/etc/meshctl"
	stateDir      = "/var/lib/meshctl"
	tokenDir      = "/var/run/meshctl"
	tokenName     = "token"
	tokenSeconds  = 3600
	userNumber    = 65532
)

// Audience is what the tokens of a mesh's pods are for.
func Audience(m mesh.ID) string { return "meshctl:" + string(m) }

// selector are the labels that every object of a cluster's entry layer has, and
// nothing else.
func selector(m mesh.ID, cluster mesh.KubeID) map[string]string {
	return map[string]string{
		LabelName: Name, LabelComponent: "entry",
		LabelMesh: string(m), LabelCluster: string(cluster),
	}
}

func labels(f Facts) map[string]string {
	l := selector(f.Mesh, f.Cluster)
	l[LabelManagedBy], l[LabelPartOf] = "meshctl", "meshctl"
	return l
}

// String is the epoch as AnnotationEpoch has it: "MESH.LEADER".
func (e Epoch) String() string { return fmt.Sprintf("%d.%d", e.Mesh, e.Leader) }

// ParseEpoch reads what String wrote. It returns ErrInvalid.
func ParseEpoch(s string) (Epoch, error) {
	first, second, _ := strings.Cut(s, ".")
	m, err1 := strconv.ParseInt(first, 10, 64)
	l, err2 := strconv.ParseInt(second, 10, 64)
	e := Epoch{m, l}
	if err1 != nil || err2 != nil || m < 0 || l < 0 || e.String() != s {
		return Epoch{}, fmt.Errorf("kube: epoch %q: want two numbers, such as 1.42: %w", mesh.Quotable(s), mesh.ErrInvalid)
	}
	return e, nil
}

// Before says whether e is earlier than other.
func (e Epoch) Before(other Epoch) bool {
	return e.Mesh < other.Mesh || e.Mesh == other.Mesh && e.Leader < other.Leader
}
