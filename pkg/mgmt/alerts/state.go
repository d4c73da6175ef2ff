package alerts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// entryAway is how long an entry may be without a stream, and entryNew how long
	// after it has joined it may have had none.
	entryAway = time.Minute
	entryNew  = 5 * time.Minute
	// Objects of rules about all of a kind.
	allEntries = "mesh/entries"
	quorum     = "store/etcd"
)

func split(object string) (kind, id string) {
	kind, id, _ = strings.Cut(object, "/")
	return kind, id
}

// state is what a look at the state tells, and what it could not.
func (l *look) state(ctx context.Context, now time.Time) alert.Input {
	in := alert.Input{Unknown: map[string]bool{}}
	add := func(c ...alert.Condition) { in.Conditions = append(in.Conditions, c...) }
	add(l.coreConditions()...)
	add(l.cellConditions()...)
	add(l.parked()...)
	add(l.hookConditions()...)
	if l.Servers == nil {
		in.Unknown[alert.ServerLost], in.Unknown[alert.QuorumAtRisk] = true, true
	} else {
		add(l.serverConditions()...)
	}
	if alive, err := l.Store.AliveNodes(ctx); err != nil {
		in.Unknown[alert.EntryLost], in.Unknown[alert.NoEntry] = true, true
	} else {
		add(l.entryConditions(alive, now)...)
	}
	if err := l.readEnds(ctx, now); err != nil {
		in.Unknown[alert.CertExpiring] = true
	}
	add(l.ends...)
	return in
}

// readEnds looks at certificates from time to time: what they tell changes slowly,
// and there may be many.
func (l *look) readEnds(ctx context.Context, now time.Time) error {
	if l.Ends == nil || !l.endsRead.IsZero() && now.Sub(l.endsRead) < endsEvery {
		return nil
	}
	ends, err := l.Ends(ctx)
	if err == nil {
		l.ends, l.endsRead = ends, now
	}
	return err
}

func (l *look) coreConditions() (out []alert.Condition) {
	for id, c := range l.cores.All() {
		rule := ""
		switch {
		case c.Revoked:
		case c.State == mesh.CoreLost:
			rule = alert.CoreLost
		case c.State == mesh.CoreJoined && c.Reason != "":
			rule = alert.CoreUnreachable
		}
		if rule != "" {
			out = append(out, alert.Condition{Rule: rule, Object: "core/" + string(id), Cause: c.Reason})
		}
	}
	return out
}

func (l *look) cellConditions() (out []alert.Condition) {
	had, ready := map[mesh.CellID]int{}, map[mesh.CellID]int{}
	for _, c := range l.cores.All() {
		if c.EverReady && !c.Revoked {
			had[c.Cell]++
		}
		if c.State == mesh.CoreReady && !c.Revoked {
			ready[c.Cell]++
		}
	}
	for id, c := range l.cells.All() {
		object := "cell/" + string(id)
		switch {
		case c.State == mesh.CellCompromised:
			out = append(out, alert.Condition{Rule: alert.CellCompromised, Object: object, Cause: "declared at " + c.Compromised.UTC().Format(time.RFC3339)})
		case c.State == mesh.CellActive && had[id] > 0 && ready[id] == 0:
			out = append(out, alert.Condition{Rule: alert.CellDown, Object: object, Cause: fmt.Sprintf("cores that were ready once: %d; now: none", had[id])})
		}
	}
	return out
}

func (l *look) parked() (out []alert.Condition) {
	for group, r := range l.rollouts.All() {
		if r.Parked.Revision == 0 {
			continue
		}
		object := "cell/" + group
		if group == mesh.EntriesGroup {
			object = allEntries
		}
		out = append(out, alert.Condition{Rule: alert.ConfigParked, Object: object, Cause: r.Reason})
	}
	return out
}

func (l *look) entryConditions(alive map[string]mesh.ServerID, now time.Time) (out []alert.Condition) {
	all, there := 0, 0
	for id, e := range l.entries.All() {
		if e.Revoked || !e.Pod.Gone.IsZero() { // a cluster deletes pods as it likes
			continue
		}
		node := "entry/" + string(id)
		seen := e.Joined.Add(entryNew - entryAway)
		if st, ok := l.status.Get(node); ok {
			seen = st.LastSeen
		}
		all++
		if _, ok := alive[node]; ok || now.Sub(seen) < entryAway {
			there++
			continue
		}
		out = append(out, alert.Condition{Rule: alert.EntryLost, Object: node, Cause: "no phone-home since " + seen.UTC().Format(time.RFC3339)})
	}
	if all > 0 && there == 0 {
		out = append(out, alert.Condition{Rule: alert.NoEntry, Object: allEntries, Cause: fmt.Sprintf("entries that should be there: %d", all)})
	}
	return out
}

// serverConditions are as this server sees the others: who has a quorum on its side
// raises alerts, so it is not this one that is away.
func (l *look) serverConditions() (out []alert.Condition) {
	votes, here := 0, 0
	for _, s := range l.Servers() {
		if s.State != mesh.ServerMember {
			continue
		}
		if s.Votes {
			votes++
		}
		if s.Here && s.Votes {
			here++
		}
		if !s.Here {
			out = append(out, alert.Condition{Rule: alert.ServerLost, Object: "server/" + string(s.ID), Cause: fmt.Sprintf("server %q is not heard of", s.Name)})
		}
	}
	// Fewer than three never survive a loss: status says so, and nothing has changed.
	if votes >= 3 && here < votes && here-1 < votes/2+1 {
		out = append(out, alert.Condition{Rule: alert.QuorumAtRisk, Object: quorum, Cause: fmt.Sprintf("%d of %d servers are there", here, votes)})
	}
	return out
}

func (l *look) hookConditions() (out []alert.Condition) {
	for name, st := range l.states.All() {
		if _, ok := l.hooks.Get(name); ok && st.Reason != "" {
			out = append(out, alert.Condition{Rule: alert.NoticesWaiting, Object: "hook/" + name, Cause: st.Reason})
		}
	}
	return out
}
