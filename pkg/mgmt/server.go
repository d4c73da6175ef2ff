package mgmt

import (
	"context"
	"errors"
	"fmt"
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
	// BootstrapSecret is what the servers that found a mesh together prove to
	// each other, at least MinBootstrapSecret bytes. nil: none is known.
	BootstrapSecret func(context.Context) (mesh.Secret, error)
	// Token lets a server with an empty folder into the mesh of the token. nil:
	// it founds one.
	Token func(context.Context) (mesh.JoinToken, error)
	// PingURL is what the dead-man ping requests. nil: there is none.
	PingURL func(context.Context) (mesh.Secret, error)
	// BotToken is the Telegram bot's, BotProxy the URL of a proxy to Telegram. nil:
	// there is no bot, or no proxy.
	BotToken func(context.Context) (mesh.Secret, error)
	BotProxy func(context.Context) (mesh.Secret, error)
	Registry *prometheus.Registry // nil: one of its own
	Log      *slog.Logger
	// Up, when set, is told where the server listens once it serves.
	Up func(Addresses)

	// step, in tests, ends the process where founding or joining has got to.
	step func(string) error
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
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // it was stopped while it waited for others
		}
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
	ping, err := s.ping(ctx)
	if err != nil {
		return nil, err
	}
	telegram, err := s.bot(ctx)
	if err != nil {
		return nil, err
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
	if err := errors.Join(f.finishRecovery(s.step), f.finishRestore(s.step)); err != nil {
		ports.close()
		f.close()
		return nil, err
	}
	r, err := s.open(ctx, f, ports)
	if err != nil {
		ports.close()
		f.close()
		return nil, err
	}
	r.employ(ping)
	r.telegram = telegram
	return r, nil
}

func (s *Server) open(ctx context.Context, f *folder, ports *listeners) (*runtime, error) {
	k, err := s.keys(ctx, f, ports)
	if err != nil {
		return nil, err
	}
	return newRuntime(s, f, k, ports)
}

// keys returns the keys of the mesh that this server is in, or has got into now.
func (s *Server) keys(ctx context.Context, f *folder, ports *listeners) (*keys, error) {
	known, err := f.has(fileServer)
	if err != nil {
		return nil, err
	}
	forming, err := f.has(fileFormation)
	if err != nil {
		return nil, err
	}
	if forming || !known && (s.Config.BootstrapExpect > 1 || s.Token != nil) {
		return s.form(ctx, f, ports)
	}
	return f.foundOrResume(ctx, s.Passphrase, time.Now())
}

// secret returns the bootstrap secret.
func (s *Server) secret(ctx context.Context) (mesh.Secret, error) {
	const hint = "make one with `meshctl mgmt bootstrap-secret`, and give all servers the same"
	if s.BootstrapSecret == nil {
		return "", setupf(hint, "found a mesh together: no bootstrap secret")
	}
	secret, err := s.BootstrapSecret(ctx)
	if err != nil {
		return "", setup(fmt.Errorf("mgmt: bootstrap secret: %w", err))
	}
	if n := len(secret.Reveal()); n < MinBootstrapSecret {
		return "", setupf(hint, "the bootstrap secret has %d bytes, at least %d are needed", n, MinBootstrapSecret)
	}
	return secret, nil
}
