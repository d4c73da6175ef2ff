package client

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// noteScaled is on a Deployment whose number of pods went over to an autoscaler.
const noteScaled = "meshctl.io/scaled-by"

// owner says whose objects are ours.
type owner struct {
	mesh    mesh.ID
	cluster mesh.KubeID
}

func (w owner) selector() string {
	return kube.LabelManagedBy + "=" + manager + "," + kube.LabelMesh + "=" + string(w.mesh) + "," + kube.LabelCluster + "=" + string(w.cluster)
}

// has says whether an object is ours. One that lost all of its labels still is, when
// we applied it: otherwise taking them away would take the object from us.
func (w owner) has(o *unstructured.Unstructured) bool {
	l := o.GetLabels()
	if l[kube.LabelMesh] != "" || l[kube.LabelCluster] != "" {
		return l[kube.LabelManagedBy] == manager && l[kube.LabelMesh] == string(w.mesh) && l[kube.LabelCluster] == string(w.cluster)
	}
	return l[kube.LabelManagedBy] == "" && fieldsOf(o, manager) != nil
}

// epochOf is who wrote an object last; the zero value is nobody.
func epochOf(o *unstructured.Unstructured) kube.Epoch {
	e, err := kube.ParseEpoch(o.GetAnnotations()[kube.AnnotationEpoch])
	if err != nil {
		return kube.Epoch{}
	}
	return e
}

// ref names an object in what is reported.
func ref(o *unstructured.Unstructured) string { return o.GetKind() + "/" + o.GetName() }
