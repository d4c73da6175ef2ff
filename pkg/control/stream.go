package control

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	sendQueue   = 64
	sendTimeout = 5 * time.Second // for a place in the queue
	partingTime = 2 * time.Second // for a goodbye to leave
)

// errStopped ends a stream that this node ended.
var errStopped = errors.New("stopped")

// stream opens one stream at addr and stays until it ends. opened says whether
// the server's welcome was accepted.
func (p *PhoneHome) stream(ctx context.Context, addr string, r *running) (opened bool, err error) {
	// The stream outlives ctx by the time a goodbye takes.
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	c, err := p.open(ctx, own, addr)
	if err != nil {
		return false, err
	}
	defer c.link.Close() // an error here would tell nothing new
	defer p.Revocations.Track(c.link.Peer, func() {
		cancel(fmt.Errorf("the server was revoked: %w", mesh.ErrDenied))
	})()
	err = c.run(ctx, own, r)
	if cause := context.Cause(own); cause != nil {
		err = cause
	}
	return c.opened, fmt.Errorf("%s: %w", addr, err)
}

// conn is one stream with what runs on it.
type conn struct {
	home   *PhoneHome
	link   *link
	leaf   *x509.Certificate // this node's, as the server saw it
	stream controlpb.NodeControl_ConnectClient
	cancel context.CancelFunc // of the stream
	in     chan *controlpb.MgmtMessage
	out    chan *controlpb.NodeMessage
	bye    chan struct{} // closed: send what is queued, then close the sending side
	opened bool          // owned by loop until run returns
}

// open dials within ctx; the stream lives as long as own.
func (p *PhoneHome) open(ctx, own context.Context, addr string) (*conn, error) {
	dialCtx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	leaf := p.Node.Leaf()
	expect := mesh.Identity{Mesh: p.Node.Identity().Mesh, Role: mesh.RoleMgmt}
	l, err := connect(dialCtx, p.Dial, addr, p.Node.ClientTLS(expect, p.Revocations, identity.ProtoGRPC), MaxMessage)
	if err != nil {
		return nil, err
	}
	sctx, stop := context.WithCancel(own)
	st, err := controlpb.NewNodeControlClient(l).Connect(sctx)
	if err != nil {
		stop()
		return nil, fmt.Errorf("%s: %w", addr, errors.Join(l.explain(err), l.Close()))
	}
	return &conn{
		home: p, link: l, leaf: leaf, stream: st, cancel: stop,
		in:  make(chan *controlpb.MgmtMessage),
		out: make(chan *controlpb.NodeMessage, sendQueue),
		bye: make(chan struct{}),
	}, nil
}

// run drives the stream until it ends, and waits for all it started.
func (c *conn) run(ctx, own context.Context, r *running) error {
	g, gctx := errgroup.WithContext(own)
	defer context.AfterFunc(gctx, c.cancel)() // frees the reader
	s := &session{home: c.home, running: r, send: c.sender(gctx)}
	s.opened = func(w *controlpb.Welcome) {
		c.opened = true
		c.home.welcomed(c, w)
		if a, ok := c.home.Role.(Attendant); ok {
			g.Go(func() error { return a.Attend(gctx, s.send) })
		}
	}
	g.Go(func() error { return c.read(gctx) })
	g.Go(func() error { return c.write(gctx) })
	g.Go(func() error { return c.loop(ctx, gctx, s) })
	err := g.Wait()
	s.end()
	return err
}

func (c *conn) read(gctx context.Context) error {
	for {
		m, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the server closed the stream: %w", mesh.ErrUnavailable)
		}
		if err != nil {
			return c.link.explain(err)
		}
		select {
		case c.in <- m:
		case <-gctx.Done():
			return nil
		}
	}
}

// write is the only sender on the stream. That a message could not be sent is
// told by what the server says to read.
func (c *conn) write(gctx context.Context) error {
	for {
		select {
		case m := <-c.out:
			if err := c.stream.Send(m); err != nil {
				return nil
			}
		case <-c.bye:
			return c.flush()
		case <-gctx.Done():
			return nil
		}
	}
}

func (c *conn) flush() error {
	for {
		select {
		case m := <-c.out:
			if err := c.stream.Send(m); err != nil {
				return nil
			}
		default:
			return c.stream.CloseSend()
		}
	}
}

// sender queues messages; a full queue means that the server takes nothing.
func (c *conn) sender(gctx context.Context) Send {
	return func(m *controlpb.NodeMessage) error {
		select {
		case c.out <- m:
			return nil
		default:
		}
		t := time.NewTimer(sendTimeout)
		defer t.Stop()
		select {
		case c.out <- m:
			return nil
		case <-t.C:
			return fmt.Errorf("the server takes no messages: %w", mesh.ErrUnavailable)
		case <-gctx.Done():
			return fmt.Errorf("the stream is over: %w", mesh.ErrUnavailable)
		}
	}
}

// loop is the one goroutine that drives the session.
func (c *conn) loop(ctx, gctx context.Context, s *session) error {
	s.pingedAt = time.Now()
	from := placeOf(c.link.conn.LocalAddr(), net.InterfaceAddrs)
	if err := s.hello(); err != nil {
		return err
	}
	pulse := time.NewTicker(c.home.pingEvery() / 3)
	defer pulse.Stop()
	report := time.NewTicker(c.home.reportEvery())
	defer report.Stop()
	for {
		var err error
		select {
		case m := <-c.in:
			err = c.receive(ctx, s, m)
		case now := <-pulse.C:
			if from.left() {
				return errMoved
			}
			err = s.tick(now)
		case <-report.C:
			err = s.report()
		case <-c.home.Changed:
			err = s.report()
		case <-ctx.Done():
			return c.part(gctx, s)
		case <-gctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// receive also sends the first report as soon as the stream is open.
func (c *conn) receive(ctx context.Context, s *session, m *controlpb.MgmtMessage) error {
	first := !s.welcomed
	if err := s.receive(ctx, m); err != nil || !first {
		return err
	}
	return s.report()
}

// part says goodbye and waits until the server has ended the stream.
func (c *conn) part(gctx context.Context, s *session) error {
	err := s.report()
	if err == nil {
		err = s.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Goodbye{Goodbye: &controlpb.Goodbye{Reason: "stopping"}}})
	}
	close(c.bye)
	if err != nil {
		return err
	}
	late := time.NewTimer(partingTime)
	defer late.Stop()
	for {
		select {
		case <-c.in: // too late to act on
		case <-late.C:
			return errStopped
		case <-gctx.Done():
			return errStopped
		}
	}
}

func (p *PhoneHome) welcomed(c *conn, w *controlpb.Welcome) {
	p.status.Store(&Status{Connected: true, Server: c.link.Peer.Node(), Observed: w.GetObserved(), Since: time.Now()})
	p.Log.Info("phone-home opened", "server", c.link.Peer.ID)
	if p.Folder == nil || c.leaf != p.Node.Leaf() {
		return
	}
	if err := p.Folder.Settle(); err != nil {
		p.Log.Warn("older identities kept", "err", err)
	}
}
