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

// has says whether an object is ours: it has our labels and no other's in their place.
// One that lost some of them still is, when we applied it: otherwise taking a label away
// would take the object from us.
func (w owner) has(o *unstructured.Unstructured) bool {
	lost := false
	for label, want := range map[string]string{kube.LabelManagedBy: manager, kube.LabelMesh: string(w.mesh), kube.LabelCluster: string(w.cluster)} {
		switch o.GetLabels()[label] {
		case want:
		case "":
			lost = true
		default:
			return false
		}
	}
	return !lost || fieldsOf(o, manager) != nil
}

// byHand: an object has our labels, and not we have applied it but somebody with other
// tools, as what a dry run prints may be. Where nothing is wanted of us it stays.
func byHand(o *unstructured.Unstructured) bool { return fieldsOf(o, manager) == nil }

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
