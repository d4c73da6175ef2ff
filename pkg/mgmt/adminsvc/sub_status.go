package adminsvc

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// defaultUpdateInterval is how often clients look where nothing else is said.
const defaultUpdateInterval = mesh.Duration(12 * time.Hour)

func (s *Service) subStatusGet(ctx context.Context, _ admin.None) (admin.SubStatus, error) {
	cfg, err := s.configAsTold(ctx)
	if err != nil {
		return admin.SubStatus{}, err
	}
	out := admin.SubStatus{
		Name: cfg.Subscription.Name, Interval: cmp.Or(cfg.Subscription.UpdateInterval, defaultUpdateInterval),
		Rules: len(cfg.Subscription.Agents), Servers: []string{},
	}
	if base := cfg.SubscriptionBase(); base != "" {
		out.URL = base + "/s/"
	}
	if out.Name != "" {
		out.Certificate = cmp.Or(cfg.Subscription.Certificate, mesh.SubscriptionFiles)
		if out.Servers, err = s.subServers(ctx, out.Name); err != nil {
			return out, err
		}
	}
	devices, _, err := s.Store.Devices.List(ctx)
	for _, d := range devices {
		switch {
		case d.State == mesh.DeviceRevoked:
		case d.Subscription.Hash != "":
			out.Linked++
		default:
			out.Unlinked++
		}
	}
	leaf := s.subLeaf()
	if leaf != nil && out.Name != "" {
		out.CertEnds = leaf.NotAfter
	}
	out.Warnings = slices.Concat(s.subWarnings(cfg, out), s.leafWarnings(out, leaf))
	return out, err
}

// subServers are those to which entries bring clients of the service.
func (s *Service) subServers(ctx context.Context, name mesh.ServerName) ([]string, error) {
	out := []string{}
	r, err := s.Store.Routes.Get(ctx, name)
	if err != nil {
		return out, ignoreAbsent(err)
	}
	servers, _, err := s.Store.Servers.List(ctx)
	for _, h := range r.Value.Hops {
		out = append(out, cmp.Or(servers[mesh.ServerID(h.ID)].Name, h.ID))
	}
	return out, err
}

// subLeaf is what clients of this server see.
func (s *Service) subLeaf() *x509.Certificate {
	if s.SubCertificate == nil {
		return nil
	}
	c := s.SubCertificate()
	if c == nil || len(c.Certificate) == 0 {
		return nil
	}
	if c.Leaf != nil {
		return c.Leaf
	}
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		return nil // nobody could be shown it either
	}
	return leaf
}

// subWarnings say why clients do not get an answer, or soon will not.
func (s *Service) subWarnings(cfg mesh.Config, st admin.SubStatus) []string {
	var out []string
	if cfg.Subscription.Name == "" {
		return []string{"the service is off: meshctl admin config set subscription.name=sub.example.net"}
	}
	if st.URL == "" {
		out = append(out, "no address of an entry is configured, so nobody gets there: meshctl admin config set entryAddresses=HOST:PORT")
	}
	if len(st.Servers) == 0 {
		out = append(out, "entries know no way to it yet; that takes some seconds after the name was set")
	}
	return out
}

// leafWarnings say what is wrong with what clients of this server see.
func (s *Service) leafWarnings(st admin.SubStatus, leaf *x509.Certificate) []string {
	var out []string
	switch {
	case st.Name == "":
	case leaf == nil && st.Certificate == mesh.SubscriptionACME:
		out = append(out, "this server has no certificate for it yet: it is being ordered (meshctl admin events), or ordering is not set up (meshctl admin acme status)")
	case leaf == nil:
		out = append(out, "this server has no certificate for it: set subscription.cert-file and subscription.key-file in its configuration, or order one (subscription.certificate=acme)")
	case leaf.VerifyHostname(string(st.Name)) != nil:
		out = append(out, fmt.Sprintf("the certificate of this server is not for %s, so clients refuse it", st.Name))
	case !s.now().Before(leaf.NotAfter):
		out = append(out, "the certificate of this server has ended, so clients refuse it")
	case leaf.NotAfter.Sub(s.now()) < min(endsSoon, leaf.NotAfter.Sub(leaf.NotBefore)/4):
		out = append(out, fmt.Sprintf("the certificate of this server ends at %s", leaf.NotAfter.UTC().Format(time.RFC3339)))
	}
	return out
}

// statusWarnings are those that concern the whole mesh: a service that is off
// is none, and of files that do not do the server says so itself.
func (s *Service) statusWarnings(cfg mesh.Config, st admin.SubStatus) []string {
	if st.Name == "" {
		return nil
	}
	warnings := s.subWarnings(cfg, st)
	if st.Certificate == mesh.SubscriptionACME {
		warnings = append(warnings, s.leafWarnings(st, s.subLeaf())...)
	}
	var out []string
	for _, w := range warnings {
		out = append(out, "subscription: "+w)
	}
	return out
}

// subExplain says what a client would get. Nothing is recorded: it holds no secret.
func (s *Service) subExplain(ctx context.Context, req admin.SubExplainRequest) (admin.SubExplanation, error) {
	d, err := s.Store.Devices.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.SubExplanation{}, err
	}
	if s.Explain == nil {
		return admin.SubExplanation{}, fmt.Errorf("admin: this server has no subscription service: %w", mesh.ErrUnavailable)
	}
	u, err := s.usage(ctx)
	if err != nil {
		return admin.SubExplanation{}, err
	}
	traffic, err := s.Store.Traffic(ctx)
	if err != nil {
		return admin.SubExplanation{}, err
	}
	e, err := s.Explain(d.ID, req.UserAgent, req.Accept, req.Format)
	if errors.Is(err, mesh.ErrNotFound) {
		return admin.SubExplanation{}, fmt.Errorf("admin: device %s is gone for good, and its link is answered like one that never was: %w", d.Name, mesh.ErrConflict)
	}
	if err != nil {
		return admin.SubExplanation{}, err
	}
	m := u.members[d.Member]
	out := admin.SubExplanation{
		Device: d.ID, DeviceName: d.Name, MemberName: m.Name, Linked: d.Subscription.Created,
		Standing: mesh.DeviceStanding(d, m, traffic.Devices[d.ID].Traffic, s.now()),
		Format:   string(e.Format), Rule: e.Rule, Note: e.Note, Notice: e.Notice, Fallback: e.Fallback,
	}
	err = s.explainNodes(ctx, &out, u, e)
	return out, err
}
