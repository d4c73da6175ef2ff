package adminsvc

import (
	"fmt"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// connect checks a connection and puts it into c, its credential sealed.
func (s *Service) connect(c *mesh.KubeCluster, with admin.KubeConnection) error {
	api := kube.API{
		Server: strings.TrimRight(with.Server, "/"), CA: with.CA, ServerName: with.ServerName,
		Auth: with.Auth, Credential: mesh.Secret(with.Credential),
	}
	ends, err := api.Check()
	if err != nil {
		return err
	}
	if !ends.IsZero() && ends.Before(s.now()) {
		return mesh.WithHint(fmt.Errorf("admin: cluster %s: the credential has ended at %s: %w", c.Name, ends.Format(time.RFC3339), mesh.ErrInvalid),
			"make a new one: `meshctl admin kube rbac --help` says how")
	}
	sealed, err := s.Store.Seal(store.KubeCredentialPlace(c.ID), api.Credential)
	if err != nil {
		return err
	}
	c.Server, c.CA, c.ServerName, c.Auth, c.Credential, c.Ends = api.Server, api.CA, api.ServerName, api.Auth, sealed, ends
	return nil
}
