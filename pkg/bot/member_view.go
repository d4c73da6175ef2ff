package bot

import (
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot/texts"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// lines puts together a screen line by line.
type lines []string

func (l *lines) add(line string) { *l = append(*l, line) }

func (l *lines) gap() { l.add("") }

func (l lines) String() string { return strings.Join(l, "\n") }

// ownText is all of a member's devices, a line each.
func ownText(t *texts.Texts, own admin.BotOwnView, now time.Time) string {
	var l lines
	l.add(t.HTML("member.home", "member", own.Member.Name))
	if own.Member.State == mesh.MemberSuspended {
		l.gap()
		l.add(t.HTML("member.suspended"))
	}
	l.gap()
	for _, d := range own.Devices {
		l.add(deviceLine(t, d, now))
	}
	if len(own.Devices) == 0 {
		l.add(t.HTML("member.none"))
	}
	l.gap()
	count := t.Plain("member.count", "n", len(own.Devices))
	if own.Limit > 0 {
		count = t.Plain("member.of-limit", "count", count, "limit", own.Limit)
	}
	l.add(texts.Escape(count))
	if n := len(own.Cores); n > 0 {
		l.add(t.HTML("member.core-counts", "ready", readyCores(own.Cores), "n", n))
	}
	return l.String()
}

func readyCores(cores []admin.CoreView) int {
	n := 0
	for _, c := range cores {
		if c.State == mesh.CoreReady {
			n++
		}
	}
	return n
}

func deviceLine(t *texts.Texts, d admin.DeviceView, now time.Time) string {
	about := t.Bytes(d.Counted)
	switch {
	case deviceState(d) != string(mesh.StandingOK):
		about = t.Plain("device.standing." + deviceState(d))
	case d.Limits.Traffic > 0:
		about = texts.Bar(d.Counted, d.Limits.Traffic)
	}
	if !d.Limits.Expires.IsZero() && d.Standing == mesh.StandingOK {
		about += " · " + t.Left(d.Limits.Expires, now)
	}
	return t.HTML("device.line", "mark", deviceMark(d), "name", d.Name, "about", about)
}

// deviceState is how the device stands, which the texts have under
// device.standing.
func deviceState(d admin.DeviceView) string {
	if d.Standing == mesh.StandingOK && len(d.Via) == 0 {
		return "waiting"
	}
	return string(d.Standing)
}

func deviceMark(d admin.DeviceView) string {
	switch d.Standing {
	case mesh.StandingOK:
		if len(d.Via) == 0 {
			return "🟡"
		}
		return "🟢"
	case mesh.StandingSuspended:
		return "⏸"
	case mesh.StandingGone:
		return "⚫"
	}
	return "🔴"
}

// deviceText is the card of one device.
func deviceText(t *texts.Texts, d admin.DeviceView, now time.Time) string {
	var l lines
	l.add(t.HTML("device.card", "mark", deviceMark(d), "name", d.Name, "state", t.Plain("device.standing."+deviceState(d))))
	l.gap()
	l.add(devicePlace(t, d))
	if d.Limits.Traffic > 0 {
		l.add(t.HTML("device.traffic", "bar", texts.Bar(d.Counted, d.Limits.Traffic),
			"used", t.Bytes(d.Counted), "limit", t.Bytes(d.Limits.Traffic)))
	} else {
		l.add(t.HTML("device.traffic-free", "used", t.Bytes(d.Counted)))
	}
	if end := d.Limits.Expires; d.Limits.Expired(now) {
		l.add(t.HTML("device.was-until", "day", t.Day(end)))
	} else if !end.IsZero() {
		l.add(t.HTML("device.until", "day", t.Day(end), "left", t.Left(end, now)))
	}
	if d.LastUsed.IsZero() {
		l.add(t.HTML("device.never-used"))
	} else {
		l.add(t.HTML("device.used", "when", t.Ago(d.LastUsed, now)))
	}
	if d.Linked.IsZero() {
		l.add(t.HTML("device.unlinked"))
	} else {
		l.add(t.HTML("device.linked", "day", t.Day(d.Linked)))
	}
	return l.String()
}

func devicePlace(t *texts.Texts, d admin.DeviceView) string {
	place := t.HTML("device.cell", "cell", d.CellName)
	if d.CoreName != "" {
		place = t.HTML("device.core", "cell", d.CellName, "core", d.CoreName)
	}
	if d.HostName != "" {
		place += "\n" + t.HTML("device.guest", "cell", d.HostName)
	}
	return place
}

// coresText is all of a member's cores, and how they are.
func coresText(t *texts.Texts, cores []admin.CoreView, now time.Time) string {
	if len(cores) == 0 {
		return t.HTML("core.none")
	}
	var l lines
	l.add(t.HTML("core.title"))
	for _, c := range cores {
		l.gap()
		coreLines(t, &l, c, now)
	}
	return l.String()
}

func coreLines(t *texts.Texts, l *lines, c admin.CoreView, now time.Time) {
	l.add(t.HTML("core.line", "mark", coreMark(c.State), "name", c.Name, "state", t.Plain("core.state."+string(c.State))))
	l.add(t.HTML("core.cell", "cell", c.CellName))
	if c.Reason != "" && c.State != mesh.CoreReady {
		l.add(t.HTML("core.reason", "reason", c.Reason))
	}
	if st := c.Status; st != nil {
		if st.Connected {
			l.add(t.HTML("core.streams", "n", st.Streams))
		} else if !st.LastSeen.IsZero() {
			l.add(t.HTML("core.seen", "when", t.Ago(st.LastSeen, now)))
		}
	}
	if c.Version != "" {
		l.add(t.HTML("core.version", "version", c.Version))
	}
	l.add(t.HTML("core.traffic", "used", t.Bytes(c.Used.Bytes())))
	if !c.CertEnds.IsZero() {
		l.add(t.HTML("core.cert", "day", t.Day(c.CertEnds), "left", t.Left(c.CertEnds, now)))
	}
}

func coreMark(s mesh.CoreState) string {
	switch s {
	case mesh.CoreReady:
		return "🟢"
	case mesh.CoreDraining:
		return "⏸"
	case mesh.CoreRevoked:
		return "⚫"
	case mesh.CoreLost:
		return "🔴"
	}
	return "🟡"
}
