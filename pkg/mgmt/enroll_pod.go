package mgmt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/meshctl/meshctl/internal/ratelimit"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/review"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// pods is the part of Enrollment for entries that are pods of a cluster. They have
// no join token, and no other way to renew either:
//
//	limits ─▶ the cluster says whose the token is ─▶ one transaction: the entry
//	that this pod is, made if it is new ─▶ sign, for a day at most
//
// Any server can do that. While the cluster does not answer nobody is let in, and
// entries go on with the certificates they have.
type pods struct {
	store *store.Store
	ca    issuer
	mesh  mesh.ID
	// suspect counts by address who was not let in, apart from wrong join tokens:
	// pods have one address in common with others that have nothing to do with them.
	suspect *suspicion
	often   *ratelimit.Limiter[string] // certificates, by node
	limits  podLimits
	turns   turns
	log     *slog.Logger
	now     func() time.Time
}

// errNoPod is all that a stranger is told, whatever was wrong.
var errNoPod = mesh.WithHint(fmt.Errorf("mgmt: enroll: this is no pod of a cluster of this mesh: %w", mesh.ErrDenied),
	"management's events of the type token-guess say why; a pod that was deleted is not let in either")

func (p *pods) enroll(ctx context.Context, from netip.Addr, req *controlpb.EnrollRequest) (*controlpb.EnrollResponse, error) {
	if p.suspect.tooMany(from) && !p.isExpected(ctx, req.GetPod()) {
		return nil, rpcstatus.To(mesh.WithHint(fmt.Errorf("mgmt: enroll: too many pods of this address were not let in: %w", mesh.ErrUnavailable),
			"it is tried again; management's events of the type token-guess say what is wrong"))
	}
	if r := req.GetRole(); r != "" && r != string(mesh.RoleEntry) {
		return nil, fmt.Errorf("mgmt: enroll: a pod is an entry, not %s: %w", mesh.Quotable(r), mesh.ErrInvalid)
	}
	if _, err := ca.CheckCSR(req.GetCsr()); err != nil {
		return nil, err
	}
	pod, err := p.identify(ctx, req.GetPod())
	if errors.Is(err, mesh.ErrDenied) {
		p.suspect.strange(ctx, from, err)
		return nil, errNoPod
	}
	if err != nil {
		return nil, err
	}
	return p.issue(ctx, pod, req)
}

// identify asks the cluster which pod has the token.
func (p *pods) identify(ctx context.Context, proof *controlpb.PodProof) (mesh.EntryPod, error) {
	none := mesh.EntryPod{}
	id, err := mesh.ParseKubeID(proof.GetCluster())
	if err != nil {
		return none, fmt.Errorf("mgmt: enroll: no cluster: %w", mesh.ErrDenied)
	}
	item, err := p.store.Kubes.Get(ctx, id)
	if errors.Is(err, mesh.ErrNotFound) {
		return none, fmt.Errorf("mgmt: enroll: the cluster %s is not one of this mesh: %w", id, mesh.ErrDenied)
	}
	if err != nil {
		return none, fmt.Errorf("mgmt: enroll: %w", err)
	}
	c := item.Value
	credential, err := p.store.Unseal(store.KubeCredentialPlace(id), c.Credential)
	if err != nil {
		return none, fmt.Errorf("mgmt: enroll: %w: %w", mesh.ErrUnavailable, err)
	}
	done, err := p.turns.take(ctx, id)
	if err != nil {
		return none, err
	}
	defer done()
	pod, err := review.Token(ctx, kube.API{
		Server: c.Server, CA: c.CA, ServerName: c.ServerName, Auth: c.Auth, Credential: credential, Namespace: c.Namespace,
	}, kube.Audience(p.mesh), mesh.Secret(proof.GetToken()))
	if err != nil {
		return none, fmt.Errorf("mgmt: enroll: cluster %q: %w", c.Name, err)
	}
	if pod.Namespace != c.Namespace || pod.Account != kube.Name {
		return none, fmt.Errorf("mgmt: enroll: cluster %q: the pod %s/%s runs as %s, want %s in %s: %w", c.Name,
			mesh.Quotable(pod.Namespace), mesh.Quotable(pod.Name), mesh.Quotable(pod.Account), kube.Name, c.Namespace, mesh.ErrDenied)
	}
	return mesh.EntryPod{Cluster: id, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: pod.Node}, nil
}

// issue signs for the entry that the pod is.
func (p *pods) issue(ctx context.Context, pod mesh.EntryPod, req *controlpb.EnrollRequest) (*controlpb.EnrollResponse, error) {
	id := mesh.Identity{Mesh: p.mesh, Role: mesh.RoleEntry, ID: string(mesh.PodEntryID(pod.Cluster, pod.UID))}
	cfg, err := p.store.Config.Get(ctx, store.ConfigKey)
	if err != nil {
		return nil, fmt.Errorf("mgmt: enroll %s: %w", id.Node(), err)
	}
	life := min(cfg.Value.CertLife.Of(mesh.RoleEntry), mesh.MaxPodCertLife)
	if !p.often.AllowEvery(id.Node(), life/renewals, p.now()) {
		return nil, rpcstatus.To(fmt.Errorf("mgmt: enroll %s: it did so too often: %w", id.Node(), mesh.ErrUnavailable))
	}
	name, err := p.admit(ctx, mesh.EntryID(id.ID), pod, req.GetVersion())
	if err != nil {
		return nil, err
	}
	chain, _, err := p.ca.Issue(ctx, ca.Request{Identity: id, CSR: req.GetCsr(), Life: life})
	if err != nil {
		return nil, fmt.Errorf("mgmt: enroll %s: %w", id.Node(), err)
	}
	p.log.Info("pod enrolled", "node", id.Node(), "name", name)
	return &controlpb.EnrollResponse{
		Chain: chain, MeshId: string(p.mesh), Node: id.Node(), Name: name, MgmtAddresses: cfg.Value.MgmtAddresses,
	}, nil
}

// admit makes the entry that the pod is, unless it is there, and returns its label.
// One that was revoked stays out for as long as the revocation counts.
func (p *pods) admit(ctx context.Context, id mesh.EntryID, pod mesh.EntryPod, version string) (string, error) {
	ident := mesh.Identity{Mesh: p.mesh, Role: mesh.RoleEntry, ID: string(id)}
	revoked, err := p.store.IsRevoked(ctx, ident.Node(), "", p.now())
	if err != nil {
		return "", fmt.Errorf("mgmt: enroll %s: %w", ident.Node(), err)
	}
	if revoked {
		return "", podRevoked(ident)
	}
	if err := p.elsewhere(ctx, ident, pod); err != nil {
		return "", err
	}
	var name string
	by := store.By{Actor: mesh.Actor("node:" + ident.Node()), Request: newRequestID()}
	_, err = p.store.Change(ctx, by, "node.enroll", func(tx *store.Tx) error {
		e, err := store.Get(tx, p.store.Entries, id)
		if errors.Is(err, mesh.ErrNotFound) {
			name, err = p.create(tx, ident, pod, version)
			return err
		}
		if err != nil {
			return err
		}
		name = e.Name
		return p.again(tx, ident, e, pod)
	})
	if errors.Is(err, errAgain) {
		err = nil
	}
	if errors.Is(err, errFlood) {
		p.flooded(ctx, pod.Cluster)
		err = rpcstatus.To(errFlood)
	}
	return name, err
}

// elsewhere refuses a pod that is an entry already by another name of its cluster: one
// that is revoked would be another one there. The UID of a pod is unlike all others;
// of clusters that are known to be two, neither says anything of the other's pods.
func (p *pods) elsewhere(ctx context.Context, ident mesh.Identity, pod mesh.EntryPod) error {
	clusters, _, err := p.store.Kubes.List(ctx)
	if err != nil {
		return fmt.Errorf("mgmt: enroll %s: %w", ident.Node(), err)
	}
	own := clusters[pod.Cluster]
	for id, c := range clusters {
		if id == pod.Cluster || c.NamespaceUID != own.NamespaceUID && c.NamespaceUID != "" && own.NamespaceUID != "" {
			continue
		}
		other := mesh.Identity{Mesh: p.mesh, Role: mesh.RoleEntry, ID: string(mesh.PodEntryID(id, pod.UID))}
		revoked, err := p.store.IsRevoked(ctx, other.Node(), "", p.now())
		if err == nil && !revoked {
			_, err = p.store.Entries.Get(ctx, mesh.EntryID(other.ID))
		}
		if err == nil {
			return mesh.WithHint(fmt.Errorf("mgmt: enroll %s: this pod is %s already, of cluster %q: %w", ident.Node(), other.Node(), c.Name, mesh.ErrDenied),
				"both clusters are one: meshctl admin kube remove one of them, then delete the pod")
		}
		if !errors.Is(err, mesh.ErrNotFound) {
			return fmt.Errorf("mgmt: enroll %s: %w", ident.Node(), err)
		}
	}
	return nil
}

// again lets an entry that is there have another certificate. The cluster has just
// said that its pod exists.
func (p *pods) again(tx *store.Tx, ident mesh.Identity, e mesh.Entry, pod mesh.EntryPod) error {
	switch {
	case !e.Pod.Is(pod):
		return fmt.Errorf("mgmt: enroll %s: it is another pod's: %w", ident.Node(), mesh.ErrConflict)
	case e.Revoked:
		return podRevoked(ident)
	case e.Pod == pod:
		return errAgain
	}
	return store.Update(tx, p.store.Entries, e.ID, func(e *mesh.Entry) error {
		e.Pod = pod
		return nil
	})
}

func podRevoked(id mesh.Identity) error {
	return mesh.WithHint(fmt.Errorf("mgmt: enroll %s: it is revoked: %w", id.Node(), mesh.ErrDenied), "delete the pod: another takes its place")
}

func (p *pods) create(tx *store.Tx, ident mesh.Identity, pod mesh.EntryPod, version string) (string, error) {
	c, err := store.Get(tx, p.store.Kubes, pod.Cluster)
	if errors.Is(err, mesh.ErrNotFound) {
		return "", errNoPod // removed since it was asked
	}
	if err != nil {
		return "", err
	}
	if !p.limits.fresh.Allow(c.ID, p.now()) {
		return "", errFlood
	}
	want := c.Name + "/" + pod.Name
	name, err := free(tx, p.store.Entries, strings.ToValidUTF8(want[:min(len(want), mesh.MaxNameLen)], ""), ident)
	if err != nil {
		return "", err
	}
	err = store.Create(tx, p.store.Entries, mesh.EntryID(ident.ID), mesh.Entry{
		ID: mesh.EntryID(ident.ID), Name: name, Version: mesh.Quotable(version), Joined: p.now(), Pod: pod,
	})
	if err != nil {
		return "", err
	}
	return name, tx.Event(mesh.Event{
		Type: mesh.EventEntryJoined, Severity: mesh.Info, Object: ident.Node(),
		Cause: fmt.Sprintf("joined as %q: the pod %s in %s of cluster %q", name, pod.Name, pod.Namespace, c.Name),
	})
}
