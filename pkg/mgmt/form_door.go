package mgmt

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// formingDoor is the mesh port of a server that has no mesh yet: it answers
// Promise, to whoever proves the bootstrap secret, and nothing else.
type formingDoor struct {
	controlpb.UnimplementedClusterServer
	former  *former
	ln      net.Listener
	metrics *metrics
}

func (d *formingDoor) run(ctx context.Context) error {
	cert, err := throwaway(d.former.now())
	if err != nil {
		return err
	}
	m := d.metrics
	v := newConveyor()
	p := &port{
		door: doorMesh, tls: &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{identity.ProtoGRPC}, Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true},
		gate: newGate(d.former.srv.Config.Rates, m.turned),
		out:  v, metrics: m, log: d.former.log,
	}
	guard := &guard{access: newAccess(false, false), metrics: m, log: d.former.log}
	g := grpc.NewServer(grpc.Creds(handshaken{}), grpc.UnaryInterceptor(guard.bare), grpc.MaxRecvMsgSize(strangerBytes), grpc.MaxHeaderListSize(maxHeaders), grpc.ConnectionTimeout(handshakeTime))
	controlpb.RegisterClusterServer(g, d)
	kept := &keptListener{Listener: d.ln}
	err = together(ctx,
		func(ctx context.Context) error { return p.serve(ctx, kept) },
		func(ctx context.Context) error {
			stop := context.AfterFunc(ctx, func() { g.Stop() })
			defer stop()
			if err := g.Serve(v); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, grpc.ErrServerStopped) {
				return fmt.Errorf("mgmt: answer other servers: %w", err)
			}
			return nil
		})
	return errors.Join(err, kept.giveBack())
}

// Promise implements the service. What it answers is true for good: it is
// written down first.
func (d *formingDoor) Promise(ctx context.Context, req *controlpb.PromiseRequest) (*controlpb.PromiseResponse, error) {
	c, _ := callerOf(ctx)
	p, err := newProver(d.former.secret, c.tls)
	if err == nil {
		err = p.check(proofAsk, req.GetProof())
	}
	if err != nil {
		d.former.log.Debug("server refused", "from", c.remote.Addr(), "err", err)
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	resp := &controlpb.PromiseResponse{Proof: p.proof(proofAnswer)}
	if err := d.former.give(req); err != nil {
		d.former.log.Warn("promise refused", "name", req.GetFounderName(), "err", err)
		resp.Refusal = err.Error()
		if h := mesh.Hint(err); h != "" {
			resp.Refusal += " (" + h + ")"
		}
		return resp, nil
	}
	resp.Joiner, err = joiner(d.former.srv.Config, d.former.state, d.former.key.Public(), d.former.addresses)
	return resp, err
}

// maxSkew is how far two servers' clocks may be apart.
const maxSkew = 10 * time.Minute

// give writes the promise down, unless another was given before.
func (x *former) give(req *controlpb.PromiseRequest) error {
	now := x.now()
	theirs := time.Unix(0, req.GetClockUnixNanos())
	if off := theirs.Sub(now).Abs(); off > maxSkew {
		return fmt.Errorf("the clocks are %v apart: %s here, %s at %q: set both right", off.Round(time.Second),
			now.UTC().Format(time.RFC3339), theirs.UTC().Format(time.RFC3339), mesh.Quotable(req.GetFounderName()))
	}
	want, err := promiseOf(req, now)
	if err != nil {
		return err
	}
	<-x.turn
	defer func() { x.turn <- struct{}{} }()
	if have := x.state.Promise; have != nil {
		if have.same(want) {
			return nil
		}
		return mesh.WithHint(fmt.Errorf("%q has promised to found %s with %q", x.state.Name, have.Mesh, have.Name),
			fmt.Sprintf("bring %q back, or withdraw the promise on %q: meshctl mgmt abandon-founding", have.Name, x.state.Name))
	}
	x.state.Promise = &want
	if err := x.save("promised"); err != nil {
		return err
	}
	x.log.Info("founding promised", "mesh", want.Mesh, "name", want.Name)
	return nil
}

// promiseOf is what another server asks for.
func promiseOf(req *controlpb.PromiseRequest, now time.Time) (promise, error) {
	id, err := mesh.ParseID(req.GetMeshId())
	founder, err2 := mesh.ParseServerID(req.GetFounder())
	err = errors.Join(err, err2, mesh.CheckName(req.GetFounderName()), checkTold(req.GetAddresses()...))
	if err != nil || len(req.GetRootHash()) != sha256.Size {
		return promise{}, errors.New("the question is not readable")
	}
	return promise{
		Founder: founder, Name: req.GetFounderName(), Mesh: id, RootHash: req.GetRootHash(), Addresses: req.GetAddresses(), At: now.UTC(),
	}, nil
}

// throwaway makes a certificate that says nothing: the proofs are over its
// connections.
func throwaway(now time.Time) (tls.Certificate, error) {
	key, err := ca.NewKey()
	if err != nil {
		return tls.Certificate{}, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "meshctl"},
		NotBefore: now.Add(-365 * 24 * time.Hour), NotAfter: now.Add(10 * 365 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("mgmt: make certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// keptListener stays open when it is closed, for whoever accepts next.
type keptListener struct{ net.Listener }

// Close ends Accept with an error.
func (l *keptListener) Close() error { return l.deadline(time.Unix(1, 0)) }

func (l *keptListener) giveBack() error { return l.deadline(time.Time{}) }

func (l *keptListener) deadline(t time.Time) error {
	d, ok := l.Listener.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return fmt.Errorf("mgmt: listener of type %T: %w", l.Listener, os.ErrNoDeadline)
	}
	return d.SetDeadline(t)
}
