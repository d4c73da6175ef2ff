package chores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshctl/meshctl/internal/child"
	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
)

const (
	beat = time.Second
	// answerTime is how long the server may take to answer. One that does not
	// may have been paused, and no longer lead; the child ends then, jobs and all.
	answerTime = 5 * time.Second
)

// Inherited is the connection to the server whose child this process is. It
// returns an error when it is none's.
func Inherited() (net.Conn, error) {
	conn, err := child.Inherited()
	if err == nil {
		// For those who list processes; otherwise it would be called "exe".
		_ = os.WriteFile("/proc/self/comm", []byte("meshctl-aux"), 0)
	}
	return conn, err
}

// Work does what the server at the other end orders until ctx ends. It fails
// when the server is gone or does not answer.
func Work(ctx context.Context, conn net.Conn) error { return work(ctx, conn, usual()) }

func work(ctx context.Context, conn net.Conn, p pace) error {
	cc, err := dial(conn)
	if err != nil {
		return err
	}
	defer cc.Close()
	ctx, cancel := context.WithCancel(ctx)
	w := &worker{pace: p, conn: cc, server: controlpb.NewChoresClient(cc), orders: make(chan *controlpb.Order), pings: make(chan *controlpb.PingOutcome), backups: make(chan *controlpb.BackupOutcome), certs: make(chan *controlpb.CertOutcome), bots: make(chan *controlpb.BotOutcome), hooks: make(chan *controlpb.HookOutcome), kubes: make(chan *controlpb.KubeOutcome)}
	lost := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { lost <- w.receive(ctx) })
	defer wg.Wait()
	defer cancel()
	return w.run(ctx, lost)
}

// dial speaks gRPC over the one connection there is.
func dial(conn net.Conn) (*grpc.ClientConn, error) {
	var used sync.Once
	cc, err := grpc.NewClient("passthrough:///server",
		grpc.WithTransportCredentials(insecure.NewCredentials()), // nobody else has an end of the socket
		grpc.WithNoProxy(), grpc.WithIdleTimeout(0), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(context.Context, string) (c net.Conn, err error) {
			err = errors.New("chores: the connection to the server is lost")
			used.Do(func() { c, err = conn, nil })
			return c, err
		}))
	if err != nil {
		return nil, fmt.Errorf("chores: reach the server: %w", err)
	}
	return cc, nil
}

// worker is the child's side.
type worker struct {
	pace    pace
	conn    grpc.ClientConnInterface
	server  controlpb.ChoresClient
	orders  chan *controlpb.Order
	pings   chan *controlpb.PingOutcome
	backups chan *controlpb.BackupOutcome
	certs   chan *controlpb.CertOutcome
	bots    chan *controlpb.BotOutcome
	hooks   chan *controlpb.HookOutcome
	kubes   chan *controlpb.KubeOutcome
}

// receive passes the orders on.
func (w *worker) receive(ctx context.Context) error {
	from, err := w.server.Orders(ctx, &controlpb.OrdersRequest{})
	for err == nil {
		var o *controlpb.Order
		if o, err = from.Recv(); err != nil {
			break
		}
		select {
		case w.orders <- o:
		case <-ctx.Done():
			return nil
		}
	}
	return fmt.Errorf("chores: receive orders: %w", err)
}

// run follows the orders and reports.
func (w *worker) run(ctx context.Context, lost <-chan error) error {
	ping := &pinger{asks: newRequester(), tell: w.pings}
	defer ping.stop()
	backup := &backuper{server: w.server, tell: w.backups, pace: w.pace}
	defer backup.stop()
	certs := &certifier{tell: w.certs}
	defer certs.stop()
	bot := &botter{conn: w.conn, tell: w.bots}
	defer bot.stop()
	hooks := &hooker{server: w.server, tell: w.hooks}
	defer hooks.stop()
	kubes := &kuber{tell: w.kubes}
	defer kubes.stopAll()
	asks := &asker{server: w.server}
	defer asks.stop()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	var report controlpb.ReportRequest
	for {
		report = controlpb.ReportRequest{Revision: report.GetRevision()}
		select {
		case <-ctx.Done():
			return nil
		case err := <-lost:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case o := <-w.orders:
			ping.follow(ctx, o.GetPing())
			backup.follow(ctx, o.GetBackup())
			certs.follow(ctx, o.GetCerts())
			bot.follow(ctx, o.GetBot())
			hooks.follow(ctx, o.GetHooks())
			kubes.follow(ctx, o.GetKube())
			asks.follow(ctx, o.GetAsks())
			report.Revision = o.GetRevision()
		case report.Ping = <-w.pings:
		case report.Backup = <-w.backups:
		case report.Cert = <-w.certs:
		case report.Bot = <-w.bots:
		case report.Hook = <-w.hooks:
		case report.Kube = <-w.kubes:
		case <-tick.C:
		}
		if err := w.report(ctx, &report); err != nil {
			return err
		}
	}
}

func (w *worker) report(ctx context.Context, r *controlpb.ReportRequest) error {
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if _, err := w.server.Report(bounded, r); err != nil && ctx.Err() == nil {
		return fmt.Errorf("chores: report: %w", err)
	}
	return nil
}

// pinger asks for a URL every so often while it is ordered to.
type pinger struct {
	asks *requester
	tell chan<- *controlpb.PingOutcome
	next time.Time // not before then, whatever orders come and go
	end  context.CancelFunc
	wg   sync.WaitGroup
}

// follow does as ordered from now on; what was ordered before has ended when it
// returns.
func (p *pinger) follow(ctx context.Context, o *controlpb.PingOrder) {
	p.stop()
	if o == nil {
		return
	}
	ctx, p.end = context.WithCancel(ctx)
	p.wg.Go(func() { p.run(ctx, o.GetUrl(), max(time.Second, time.Duration(o.GetIntervalNanos()))) })
}

func (p *pinger) stop() {
	if p.end != nil {
		p.end()
		p.end = nil
	}
	p.wg.Wait()
}

func (p *pinger) run(ctx context.Context, url string, every time.Duration) {
	retry := control.Backoff{Min: 2 * retryFirst, Max: every}
	for {
		if wait(ctx, time.Until(p.next)); ctx.Err() != nil {
			return
		}
		begun := time.Now()
		out := p.asks.ask(ctx, url)
		if out.GetResult() == controlpb.PingOutcome_DONE {
			retry.Reset()
			p.next = begun.Add(every)
		} else {
			p.next = time.Now().Add(max(retryFirst, retry.Next()))
		}
		select {
		case p.tell <- out:
		case <-ctx.Done():
			return
		}
	}
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
