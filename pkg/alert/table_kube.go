package alert

import (
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// clusterRules are decided by a look at the clusters that entries run in.
func clusterRules() []Rule {
	return []Rule{
		{Name: EntriesLacking, Severity: mesh.Warning, What: "a cluster has fewer entries than it should, and no more come",
			Advice: "meshctl admin entry status says which pod and why: give it room, or scale down", For: time.Minute, Clear: defaultClear, Repeat: remindWarning},
		// The event is written by whoever parks the release.
		{Name: EntriesFailed, Severity: mesh.Warning, What: "a release of entries failed in a cluster; what ran before is put back",
			Advice: "meshctl admin entry status says which pod and why; mend it and deploy again", Repeat: remindWarning},
		{Name: EntryAddress, Severity: mesh.Warning, What: "an address of entries in a cluster leads to none",
			Advice: "clients are told the others: look at the balancer, or at the nodes; meshctl admin entry status says since when",
			For:    time.Minute, Clear: defaultClear, Repeat: remindWarning,
			Fires: mesh.EventAddressDown, Over: mesh.EventAddressUp},
		{Name: KubeConflict, Severity: mesh.Warning, What: "somebody else keeps a field of what meshctl keeps in a cluster",
			Advice: "nothing is forced: let the other one give the field up, or set it as that one does",
			For:    time.Minute, Clear: defaultClear, Repeat: remindWarning,
			Fires: mesh.EventKubeConflict, Over: mesh.EventKubeSettled},
		{Name: KubeCredential, Severity: mesh.Warning, What: "the credential of a cluster ends within a week",
			Advice: "make another one and hand it over: meshctl admin kube set NAME --kubeconfig FILE", Repeat: remindWarning},
		{Name: KubeUnreachable, Severity: mesh.Warning, What: "the API of a cluster does not answer, or not well",
			Advice: "entries there go on serving and are not looked after: meshctl admin kube check says more",
			For:    2 * time.Minute, Clear: defaultClear, Repeat: remindWarning,
			Fires: mesh.EventKubeUnreachable, Over: mesh.EventKubeReachable},
		{Name: PolicyOpen, Severity: mesh.Critical, What: "a cluster does not enforce the network policy of its entries",
			Advice: "its network plugin has to enforce NetworkPolicy; until then an entry that is taken over reaches all that its node reaches",
			Repeat: remindRarely, Fires: mesh.EventPolicyNotEnforced, Over: mesh.EventPolicyEnforced},
	}
}
