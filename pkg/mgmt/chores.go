package mgmt

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// choresOffice is what servers elect the one for whose child has the jobs.
const choresOffice = "chores"

// ping reads what the dead-man ping requests.
func (s *Server) ping(ctx context.Context) (chores.Ping, error) {
	p := chores.Ping{Interval: s.Config.Ping.Interval}
	if s.PingURL == nil {
		return p, nil
	}
	text, err := s.PingURL(ctx)
	if err == nil {
		if p.URL, err = chores.ParseURL(text); err != nil {
			err = fmt.Errorf("ping.url-file: %w", err)
		}
	}
	if err != nil {
		return p, setup(fmt.Errorf("mgmt: configuration: %w", err))
	}
	return p, nil
}

// employ gives the foreman of the child process what it needs of this server.
func (r *runtime) employ(ping chores.Ping) {
	f := &r.foreman
	f.Ping, f.Memory, f.Log = ping, r.srv.Config.Aux.Memory, r.log
	f.Scratch = r.folder.path(dirBackup)
	f.Hand, f.Well = r.admitAux, r.wellHere
	f.Lead = func(ctx context.Context, work func(context.Context) error) error {
		return r.store.Lead(ctx, choresOffice, r.keys.Server, work)
	}
}

// admitAux lets the child call: what the table opens to it, over its own socket.
func (r *runtime) admitAux(conn net.Conn) {
	known := &knownConn{Conn: conn, raw: conn, closed: func() {}, caller: caller{door: doorAux, kind: kindAux}}
	if !r.conveyor.put(known) {
		known.cut()
	}
}

// wellHere says whether this server serves, a quorum answers, and it finds the
// office still this server's: a leader that was paused learns so before its child
// goes on.
func (r *runtime) wellHere(ctx context.Context) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	who, err := r.store.Leader(ctx, choresOffice)
	if err != nil {
		return err
	}
	if who != r.keys.Server {
		return errors.New("mgmt: the office is another server's by now")
	}
	return nil
}

// auxStatus describes the child process and its jobs; nil when there were none yet.
func (r *runtime) auxStatus(ctx context.Context, problem func(string, ...any)) *admin.AuxStatus {
	s := r.foreman.Status()
	if !s.Hired {
		return nil
	}
	for _, p := range s.Problems() {
		problem("%s", p)
	}
	out := &admin.AuxStatus{
		PID: s.PID, Started: s.Started, Restarts: s.Restarts, LastEnd: s.LastEnd, LastEnded: s.LastEnded,
	}
	if r.foreman.Ping.URL == "" {
		return out
	}
	out.Ping = &admin.PingStatus{
		Here: s.Leads, Held: s.Held, LastSuccess: s.Ping.LastSuccess,
		LastFailure: s.Ping.LastFailure, Failures: s.Ping.Failures, Reason: s.Ping.Reason,
	}
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	who, err := r.store.Leader(ctx, choresOffice)
	if err != nil && mesh.Kind(err) != mesh.ErrNotFound {
		problem("dead-man ping: who does it is not known: %v", err)
	}
	out.Ping.Leader = who
	return out
}
