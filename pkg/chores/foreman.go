package chores

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshctl/meshctl/internal/child"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// silence is how long a child may say nothing, and startTime how long until
	// it speaks at all.
	silence   = 10 * time.Second
	startTime = 30 * time.Second
	// obeyTime is how long it may take to do as it is told.
	obeyTime = 5 * time.Second
	// wellEvery is how often the leader looks whether the mesh is well, and
	// wellTime how long it waits for that.
	wellEvery = 2 * time.Second
	wellTime  = 2 * time.Second
)

// Foreman is the server's side: it keeps the child running and tells it what to
// do. It is the service Chores, which only the child may call.
type Foreman struct {
	controlpb.UnimplementedChoresServer

	Ping   Ping   // the zero Ping: not configured
	Backup Backup // nil: this server makes none
	Certs  Certs  // nil: this server orders none
	Hooks  Hooks  // nil: this server posts nothing
	Bot    Bot    // nil: this server has none
	Outbox Outbox // nil: this server sends nothing
	Kube   Kube   // nil: this server keeps no clusters
	// Scratch is a folder of this server's own, for files of a proof.
	Scratch string
	Memory  int64 // bytes that the child may have
	// Lead runs its argument while this server holds the office (store.Lead).
	Lead func(context.Context, func(context.Context) error) error
	// Well says why the mesh is not well, as the holder of the office sees it.
	Well func(context.Context) error
	// Hand gives the child's connection to the gRPC server that serves the
	// Foreman.
	Hand func(net.Conn)
	Log  *slog.Logger

	once   sync.Once
	proc   *child.Process
	wake   chan struct{} // the order may be another
	needed chan struct{} // closed when there is a job for a child
	mu     sync.Mutex    // guards what is below
	desk   desk
	well   string // why jobs are held back; "": they are not
	leads  bool
	hired  bool // needed is closed
	ping   PingState
	pinged map[string]int // outcomes, by what they are
	asked  uint64         // the last id of an ask
	asking map[uint64]*question
}

// Configured says whether there can be any job for a child.
func (f *Foreman) Configured() bool {
	return f.Ping.URL != "" || f.Backup != nil || f.Hooks != nil || f.Certs != nil || f.Bot != nil || f.Kube != nil
}

// Wake has the orders asked for now.
func (f *Foreman) Wake() {
	f.begin()
	select {
	case f.wake <- struct{}{}:
	default: // it will be
	}
}

// Run keeps the child running, and at work while this server leads, until ctx
// ends. There is no child before there is a job: the ping is one at once, and
// backups are when this server orders one for the first time.
func (f *Foreman) Run(ctx context.Context) error {
	if !f.Configured() {
		<-ctx.Done()
		return nil
	}
	f.begin()
	if f.Ping.URL != "" {
		f.set(f.hire)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case <-f.needed:
			return f.proc.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	g.Go(func() error { return f.Lead(ctx, f.lead) })
	return g.Wait()
}

// begin makes what the zero Foreman lacks.
func (f *Foreman) begin() {
	f.once.Do(func() {
		f.wake, f.needed = make(chan struct{}, 1), make(chan struct{})
		// It is this very program, also when the file it was started from has been
		// replaced.
		f.proc = &child.Process{
			Name: "aux", Path: "/proc/self/exe", Args: []string{"meshctl", "mgmt", "aux"},
			Env: environment(f.Memory, os.Getenv), Memory: f.Memory,
			Attend: f.attend, Redact: f.redact, Log: f.Log,
		}
	})
}

// redact takes the secrets of the jobs out of what the child wrote.
func (f *Foreman) redact(s string) string {
	s = hideBot(f.ordersBot(), hideCerts(f.ordersCerts(), hide(f.ordered(), hideHooks(f.ordersHooks(), f.Ping.redact(s)))))
	return f.hideAsks(hideKube(f.ordersKube(), s))
}

// environment is all that the child gets: where certificates of the public and
// the SSH agent of this server are, a path on which it finds git, and to collect
// garbage well before the kernel refuses memory.
func environment(memory int64, getenv func(string) string) []string {
	env := []string{"GOMEMLIMIT=" + strconv.FormatInt(memory/2, 10), "PATH=/usr/local/bin:/usr/bin:/bin"}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "SSH_AUTH_SOCK"} {
		if v := getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// attend hands the child's connection over and watches that it lives and obeys.
func (f *Foreman) attend(ctx context.Context, conn net.Conn) error {
	f.mu.Lock()
	f.desk.begin(time.Now())
	f.mu.Unlock()
	f.Hand(conn)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		f.mu.Lock()
		err := f.desk.overdue(time.Now())
		f.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// lead orders the jobs for as long as this server leads and the mesh is well,
// and does not return before the child has given them back.
func (f *Foreman) lead(ctx context.Context) error {
	f.Log.Info("leadership taken", "unit", "chores")
	f.set(func() { f.leads = true })
	var wg sync.WaitGroup
	defer wg.Wait()
	defer f.takeBack(ctx)
	if f.Backup != nil {
		wg.Go(func() { f.leadBackup(ctx) })
	}
	if f.Hooks != nil {
		wg.Go(func() { f.leadHooks(ctx) })
	}
	if f.Certs != nil {
		wg.Go(func() { f.leadCerts(ctx) })
	}
	if f.Bot != nil {
		wg.Go(func() { f.leadBot(ctx) })
	}
	if f.Kube != nil {
		wg.Go(func() { f.leadKube(ctx) })
	}
	tick := time.NewTicker(wellEvery)
	defer tick.Stop()
	for {
		f.look(ctx)
		select {
		case <-ctx.Done():
			f.Log.Info("leadership ended", "unit", "chores", "reason", context.Cause(ctx).Error())
			return nil
		case <-tick.C:
		case <-f.wake:
		}
	}
}

// look orders the jobs, or holds them back.
func (f *Foreman) look(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, wellTime)
	defer cancel()
	err := f.Well(bounded)
	if ctx.Err() != nil {
		return
	}
	why, order := "", f.jobs()
	if err != nil {
		why, order = mesh.Plain(err), jobs{}
	}
	f.set(func() {
		switch {
		case f.well == "" && why != "":
			f.Log.Warn("jobs held back", "err", err)
		case f.well != "" && why == "":
			f.Log.Info("jobs resumed")
		}
		f.well = why
		f.give(order)
	})
}

// jobs are all that the child is to do while the mesh is well.
func (f *Foreman) jobs() jobs {
	j := jobs{ping: f.Ping.order()}
	if f.Hooks != nil {
		j.hooks = f.Hooks.Order().proto()
	}
	if f.Backup != nil {
		j.backup = f.Backup.Order().proto()
	}
	if f.Certs != nil {
		j.certs = f.Certs.Order().proto()
	}
	if f.Bot != nil {
		j.bot = f.Bot.Order().proto()
	}
	if f.Kube != nil {
		j.kube = f.kubeOrder()
	}
	return j
}

// hire has the child started. Callers hold f.mu.
func (f *Foreman) hire() {
	if !f.hired {
		f.hired = true
		close(f.needed)
	}
}

// give orders the jobs. Callers hold f.mu.
func (f *Foreman) give(order jobs) {
	if order != (jobs{}) {
		f.hire()
	}
	f.desk.order(order, time.Now())
}

// takeBack ends the jobs. A child that does not end them is killed meanwhile by
// whoever attends to it.
func (f *Foreman) takeBack(ctx context.Context) {
	f.set(func() {
		f.leads, f.well = false, ""
		f.give(jobs{})
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*obeyTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil && f.state().PID != 0 {
		f.mu.Lock()
		done := f.desk.followed()
		f.mu.Unlock()
		if done {
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// state is how the child goes.
func (f *Foreman) state() child.State {
	f.begin()
	return f.proc.State()
}

func (f *Foreman) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Orders sends the orders of now, and again whenever they change.
func (f *Foreman) Orders(_ *controlpb.OrdersRequest, to controlpb.Chores_OrdersServer) error {
	ctx := to.Context()
	for {
		f.mu.Lock()
		o, changed := f.desk.now()
		f.mu.Unlock()
		if err := to.Send(o); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// Report takes note of a sign of life and of what was done.
func (f *Foreman) Report(_ context.Context, r *controlpb.ReportRequest) (*controlpb.ReportResponse, error) {
	f.set(func() {
		now := time.Now()
		f.desk.heard(r.GetRevision(), now)
		if out := r.GetPing(); out != nil {
			f.ended(out, now)
		}
	})
	if out, ordered := r.GetBackup(), f.ordered(); out != nil && ordered != nil {
		f.Backup.Ended(outcomeOf(out, ordered))
	}
	if out, ok := hookOutcomeOf(r.GetHook(), f.ordersHooks()); ok && r.GetHook() != nil {
		f.Hooks.Ended(out)
	}
	if out, ordered := r.GetCert(), f.ordersCerts(); out != nil && ordered != nil {
		f.Certs.Ended(certOutcomeOf(out, ordered))
	}
	if out, ordered := r.GetBot(), f.ordersBot(); out != nil && ordered != nil {
		f.Bot.Ended(botOutcomeOf(out, ordered))
	}
	if out, ok := kubeOutcomeOf(r.GetKube(), f.ordersKube(), time.Now()); ok {
		f.Kube.Ended(out)
	}
	return &controlpb.ReportResponse{}, nil
}

// ended notes how a ping ended. Callers hold f.mu.
func (f *Foreman) ended(out *controlpb.PingOutcome, now time.Time) {
	word, text := outcome(out)
	if f.pinged == nil {
		f.pinged = map[string]int{}
	}
	f.pinged[word]++
	if word == done {
		if f.ping.Failures > 0 {
			f.Log.Info("pings succeed again", "count", f.ping.Failures)
		}
		f.ping = PingState{LastSuccess: now, LastFailure: f.ping.LastFailure}
		return
	}
	if f.ping.Failures == 0 {
		f.Log.Warn("ping failed", "reason", word, "code", out.GetStatus())
	}
	f.ping.Failures++
	f.ping.LastFailure, f.ping.Reason = now, text
}
