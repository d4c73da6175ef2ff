package chores

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxPasses is how often in one round somebody else may be faster at a remote.
const maxPasses = 4

// round is one go at making a commit and bringing it to the remotes.
//
//	open ─▶ take in what the remotes hold ─▶ draft, commit ─▶ allowed? push, ask ─▶ proof
//	          ▲                                                  │ somebody was faster
//	          └──────────────────────────────────────────────────┘
type round struct {
	*backupJob
	clone  *repo.Repo
	out    *controlpb.BackupOutcome
	wanted uint64 // due when it began
	anew   bool   // the head of the clone has become one that was not drafted here
	stop   error  // why nothing is to be done any more
	signed map[repo.ID]*backup.Manifest
	tags   map[string]struct{} // made in this round
}

func (j *backupJob) newRound() *round {
	return &round{backupJob: j, out: new(controlpb.BackupOutcome), signed: map[repo.ID]*backup.Manifest{}, tags: map[string]struct{}{}}
}

// run does the round. Remotes that went well when last tried, and those that did
// not, have rounds of their own, so that the former do not wait for the latter.
func (r *round) run(ctx context.Context) {
	due, proof := r.asked()
	r.wanted = due
	if err := r.open(ctx); err != nil {
		r.stop = err
		r.report(ctx)
		return
	}
	well, ill := r.attended()
	if before := r.clone.Head(); len(ill) == 0 || r.pressing(well, before) {
		r.bring(ctx, well)
	} else if r.bring(ctx, ill); r.clone.Head() != before {
		r.bring(ctx, well) // what came from the others
	}
	if proof > r.proved && r.proof.due(time.Now()) && r.stop == nil {
		r.proveOne(ctx, proof)
	}
	r.report(ctx)
}

func (r *round) path() string { return filepath.Join(r.order.GetFolder(), "repo.git") }

func (r *round) options() repo.Options { return repo.Options{Mine: new(backup.Manifest).Ours} }

// open opens the clone, which is made anew when it is damaged.
func (r *round) open(ctx context.Context) (err error) {
	r.clone, err = repo.Open(ctx, r.path(), r.options())
	if err != nil {
		return local(err)
	}
	r.out.Recloned = r.clone.SetAside() != ""
	return nil
}

// attended are the remotes that may be tried: those that went well when last
// tried, and those that did not and whose time has come.
func (r *round) attended() (well, ill []*remote) {
	for _, m := range r.remotes {
		m.out = nil
		switch {
		case m.again.fails == 0:
			well = append(well, m)
		case m.again.due(time.Now()):
			ill = append(ill, m)
		}
	}
	return well, ill
}

// pressing says whether there is something to do for the remotes that went well,
// or something to commit.
func (r *round) pressing(well []*remote, head repo.ID) bool {
	if r.wanted > r.drafted && (len(well) > 0 || head != "") {
		return true
	}
	return slices.ContainsFunc(well, func(m *remote) bool { return m.again.due(time.Now()) })
}

// bring makes remotes hold the state of now.
func (r *round) bring(ctx context.Context, remotes []*remote) {
	for _, m := range remotes {
		m.begin()
	}
	for range maxPasses {
		r.each(remotes, func(m *remote) error { return r.take(ctx, m) })
		if r.stop == nil {
			r.stop = r.commit(ctx)
		}
		faster := false
		r.each(remotes, func(m *remote) error {
			lost, err := r.push(ctx, m)
			faster = faster || lost
			return err
		})
		if !faster || r.stop != nil || ctx.Err() != nil {
			return
		}
		for _, m := range remotes {
			if failureClass(m.err) == controlpb.BackupOutcome_NOT_FAST_FORWARD {
				m.err = nil // once more
			}
		}
	}
}

// each does something at every remote that has not failed in this round, for as
// long as nothing ends it.
func (r *round) each(remotes []*remote, do func(*remote) error) {
	for _, m := range remotes {
		if m.err != nil || r.stop != nil {
			continue
		}
		if m.err = do(m); whole(m.err) {
			r.stop = m.err
		}
	}
}

// commit asks the server for what is to be committed, if there may be anything,
// and commits it.
func (r *round) commit(ctx context.Context) error {
	if !r.anew && r.wanted <= r.drafted {
		return nil
	}
	head := r.clone.Head()
	if head == "" && !r.reached() {
		return nil // what a remote holds is to be the base, and none has said
	}
	d, err := r.clone.Begin(head)
	if err != nil {
		return local(err)
	}
	return errors.Join(r.fill(ctx, d, head), local(d.Close()))
}

// reached says whether any remote has said in this round what it holds.
func (r *round) reached() bool {
	for _, m := range r.remotes {
		if m.out != nil && m.took {
			return true
		}
	}
	return false
}

// fill has the server say what the commit is, and makes it.
func (r *round) fill(ctx context.Context, d *repo.Draft, head repo.ID) error {
	var index backup.Tree
	if head != "" {
		t, err := r.clone.Tree(head)
		if err != nil {
			return local(err)
		}
		index = t
	}
	var putting error
	kept := map[string]bool{}
	end, err := draft(ctx, r.server, &controlpb.DraftBase{Epoch: r.order.GetEpoch(), Commit: string(head)}, index, func(f backup.File) error {
		kept[f.Path] = !f.Gone
		putting = local(d.Put(ctx, f))
		return putting
	})
	switch {
	case putting != nil:
		return putting
	case err != nil:
		return drafting(err)
	case end == nil:
		r.drafted, r.anew = r.wanted, false
		return nil
	case end.GetFull():
		if err := r.clear(ctx, d, head, kept); err != nil {
			return local(err)
		}
	}
	id, err := d.Commit(ctx, r.meta(head, end))
	if err != nil {
		return local(err)
	}
	r.out.Committed = r.out.GetCommitted() || id != head
	r.drafted, r.anew = r.wanted, false
	return nil
}

// clear removes from a draft what is the backup's and was not put.
func (r *round) clear(ctx context.Context, d *repo.Draft, head repo.ID, kept map[string]bool) error {
	if head == "" {
		return nil
	}
	t, err := r.clone.Tree(head)
	if err != nil {
		return err
	}
	return t.Paths(ctx, "", func(path string) error {
		if kept[path] {
			return nil
		}
		return d.Put(ctx, backup.File{Path: path, Gone: true})
	})
}

func (r *round) meta(head repo.ID, end *controlpb.DraftEnd) repo.Meta {
	m := repo.Meta{
		Message: end.GetMessage(), When: time.Unix(0, end.GetTimeUnixNanos()).UTC(), SignKey: mesh.Secret(r.order.GetSignKey()),
		Trailers: []repo.Trailer{
			{Key: repo.TrailerEpoch, Value: epochText(r.order.GetEpoch())},
			{Key: repo.TrailerRevision, Value: strconv.FormatInt(end.GetRevision(), 10)},
		},
	}
	if head != "" {
		m.Parents = []repo.ID{head}
	}
	return m
}

func epochText(e *controlpb.BackupEpoch) string {
	return fmt.Sprintf("%d.%d", e.GetMesh(), e.GetLeader())
}

// report says how the round went, and when what failed is tried again.
func (r *round) report(ctx context.Context) {
	if r.clone != nil {
		r.say(ctx)
	}
	r.finish()
}

func (r *round) finish() {
	if r.clone != nil {
		if err := r.clone.Close(); err != nil && r.stop == nil {
			r.stop = local(err)
		}
	}
	r.out.Due, r.out.Failure = r.drafted, failureClass(r.stop)
	if r.out.GetFailure() == controlpb.BackupOutcome_CLONE && !errors.Is(r.stop, mesh.ErrConflict) { // another process has it open
		r.setAside()
	}
	soonest := time.Now().Add(r.pace.look)
	for _, m := range r.remotes {
		if m.out != nil && r.stop == nil {
			m.again.went(m.err == nil, r.nextLook(time.Now()))
		}
		soonest = earlier(soonest, m.again.next)
	}
	r.work.went(r.stop == nil, time.Time{})
	if r.stop == nil && r.wanted > r.drafted {
		r.work.next = soonest // no remote has said what to build on
	}
}

// nextLook is when a remote that went well is to be looked at again, at the latest.
func (r *round) nextLook(now time.Time) time.Time {
	at := now.Add(r.pace.look)
	if every := time.Duration(r.order.GetHeartbeatNanos()); every > 0 {
		at = earlier(at, now.UTC().Truncate(every).Add(every)) // the next tag
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// say fills in what is known of the clone and the remotes.
func (r *round) say(ctx context.Context) {
	head := r.clone.Head()
	r.out.Commit = string(head)
	if held, err := r.manifest(ctx, head); err == nil && held != nil {
		r.out.Revision = held.Revision
	}
	for _, m := range r.remotes {
		if m.out == nil {
			continue
		}
		m.out.Failure = failureClass(m.err)
		if f, ok := errors.AsType[*repo.Fault](m.err); ok && f.Fingerprint != "" {
			m.out.HostKey = f.Fingerprint
		}
		m.out.Behind = r.behind(ctx, head, m.head)
		if held, err := r.manifest(ctx, m.head); m.took && err == nil && held != nil {
			m.out.Head, m.out.Revision, m.out.TimeUnixNanos = string(m.head), held.Revision, held.Time.UnixNano()
		}
		r.out.Remotes = append(r.out.Remotes, m.out)
	}
}

// behind counts the commits from old to head; -1: it is not known.
func (r *round) behind(ctx context.Context, head, old repo.ID) int64 {
	if head == old {
		return 0
	}
	n := int64(0)
	for c, err := range r.clone.Log(ctx, head) {
		switch {
		case err != nil || n > maxBehind:
			return -1
		case c.ID == old:
			return n
		}
		n++
	}
	if old != "" {
		return -1
	}
	return n
}

// setAside moves a clone away that was opened and then found to be damaged.
func (r *round) setAside() {
	_, err := repo.MoveAside(r.path(), time.Now())
	r.out.Recloned = err == nil // otherwise it is tried again
}

// proveOne has what one remote holds proven: another one each time.
func (r *round) proveOne(ctx context.Context, number uint64) {
	m := r.toProve(number)
	if m == nil {
		r.proof.went(false, time.Time{})
		return
	}
	err := r.proveRemote(ctx, m)
	r.out.Proof = &controlpb.ProofOutcome{Prove: number, Remote: m.order.GetName(), Commit: string(m.head), Failure: failureClass(err)}
	r.proof.went(err == nil, time.Time{})
	if err == nil {
		r.proved = number
	}
}

// toProve is a remote that holds a backup, as it has just been seen; nil: none.
func (r *round) toProve(number uint64) *remote {
	for i := range r.remotes {
		m := r.remotes[(int(number%uint64(len(r.remotes)))+i)%len(r.remotes)]
		if m.out != nil && m.err == nil && m.head != "" {
			return m
		}
	}
	return nil
}

func (r *round) proveRemote(ctx context.Context, m *remote) (err error) {
	dir := filepath.Join(r.order.GetFolder(), "proof.git")
	if err := os.RemoveAll(dir); err != nil {
		return local(err)
	}
	fresh, err := repo.Clone(ctx, m.repo(), dir, 1, r.options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fresh.Close(), os.RemoveAll(dir)) }()
	head := fresh.Head()
	t, err := fresh.Tree(head)
	if err != nil {
		return err
	}
	m.head = head
	return drafting(prove(ctx, r.server, &controlpb.ProofBegin{Epoch: r.order.GetEpoch(), Remote: m.order.GetName(), Commit: string(head)}, t))
}
