package chores

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
)

// jobs are what a child can be told to do; nil: not to be done.
type jobs struct {
	ping   *controlpb.PingOrder
	hooks  *controlpb.HooksOrder
	backup *controlpb.BackupOrder
	certs  *controlpb.CertsOrder
	bot    *controlpb.BotOrder
	kube   *controlpb.KubeOrder
}

func (j jobs) equal(o jobs) bool {
	return proto.Equal(j.ping, o.ping) && proto.Equal(j.hooks, o.hooks) && proto.Equal(j.backup, o.backup) && proto.Equal(j.certs, o.certs) &&
		proto.Equal(j.bot, o.bot) && proto.Equal(j.kube, o.kube)
}

// desk is what the child is to do, and whether it does.
type desk struct {
	revision uint64
	jobs     jobs
	asks     []*controlpb.KubeAsk // whether there are jobs or not
	ordered  time.Time
	changed  chan struct{} // closed at the next change

	began    time.Time // the child
	spoke    time.Time // when it first said something; zero: not yet
	lastSaid time.Time
	follows  uint64 // the revision that it follows
}

// begin is for a child that has just been started.
func (d *desk) begin(now time.Time) { d.began, d.spoke, d.follows = now, time.Time{}, 0 }

// order changes what is to be done, if that is a change.
func (d *desk) order(to jobs, now time.Time) {
	if d.jobs.equal(to) {
		return
	}
	d.jobs = to
	d.tell(now)
}

// ask changes what is asked.
func (d *desk) ask(asks []*controlpb.KubeAsk, now time.Time) {
	d.asks = asks
	d.tell(now)
}

// tell has the child told of a change.
func (d *desk) tell(now time.Time) {
	d.ordered = now
	d.revision++
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// now is the order of now, and what closes when it is no longer.
func (d *desk) now() (*controlpb.Order, <-chan struct{}) {
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	return &controlpb.Order{
		Revision: d.revision, Ping: d.jobs.ping, Hooks: d.jobs.hooks, Backup: d.jobs.backup, Certs: d.jobs.certs, Bot: d.jobs.bot,
		Kube: d.jobs.kube, Asks: d.asks,
	}, d.changed
}

func (d *desk) heard(revision uint64, now time.Time) {
	if d.spoke.IsZero() {
		d.spoke = now
	}
	d.lastSaid, d.follows = now, revision
}

// followed says whether the child does what it was last told, no more, no less.
func (d *desk) followed() bool { return !d.spoke.IsZero() && d.follows == d.revision }

// overdue says what the child should have done by now.
func (d *desk) overdue(now time.Time) error {
	if d.spoke.IsZero() {
		if now.Sub(d.began) > startTime {
			return fmt.Errorf("it said nothing within %v of its start", startTime)
		}
		return nil
	}
	if now.Sub(d.lastSaid) > silence {
		return fmt.Errorf("it was silent for %v", silence)
	}
	told := d.ordered
	if d.spoke.After(told) {
		told = d.spoke // what was ordered before it ran it learns now
	}
	if !d.followed() && now.Sub(told) > obeyTime {
		return errors.New("it did not do as it was told")
	}
	return nil
}
