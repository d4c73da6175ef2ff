package mgmt

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/internal/supervise"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Server is one management server.
type Server struct {
	Config  Config
	Version string
	// Passphrase is asked for the root passphrase when a mesh is founded, and
	// at no other time. nil: founding is refused.
	Passphrase func(context.Context) (mesh.Secret, error)
	Registry   *prometheus.Registry // nil: one of its own
	Log        *slog.Logger
	// Up, when set, is told where the server listens once it serves.
	Up func(Addresses)
}

// Addresses are where a server listens, with the ports that the system chose.
// What is not configured is "".
type Addresses struct {
	Mesh, Admin, Gateway, Metrics, Socket string
}

// Run founds the mesh or resumes it, and serves until ctx ends. It calls ready
// once everything is served. Errors that wrap ErrSetup need a person, those
// that wrap mesh.ErrUnavailable another try.
func (s *Server) Run(ctx context.Context, ready func()) error {
	r, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	return supervise.Run(ctx, s.Log, r.units(ready)...)
}

// prepare checks the configuration, takes the ports, and founds or opens the
// folder, in that order: what fails early has changed nothing.
func (s *Server) prepare(ctx context.Context) (*runtime, error) {
	if err := s.Config.Validate(); err != nil {
		return nil, setup(err)
	}
	ports, err := listen(ctx, s.Config)
	if err != nil {
		return nil, err
	}
	f, err := openFolder(s.Config.Dir)
	if err != nil {
		ports.close()
		return nil, err
	}
	r, err := s.open(ctx, f, ports)
	if err != nil {
		ports.close()
		f.close()
	}
	return r, err
}

func (s *Server) open(ctx context.Context, f *folder, ports *listeners) (*runtime, error) {
	k, err := f.foundOrResume(ctx, s.Passphrase, time.Now())
	if err != nil {
		return nil, err
	}
	return newRuntime(s, f, k, ports)
}
