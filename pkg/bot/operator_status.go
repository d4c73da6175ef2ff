package bot

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot/texts"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Actions of the overview.
const actStatus = "st"

const (
	maxWarnings = 12                 // that the overview shows
	endsSoon    = 7 * 24 * time.Hour // a certificate
)

func opStatus() Routes {
	return Routes{
		Commands: []Command{operates("status", func(ctx context.Context, s *Session, _ string) error { return showStatus(ctx, s) })},
		Actions:  []Action{looks(actStatus, func(ctx context.Context, s *Session, _ []string) error { return showStatus(ctx, s) })},
	}
}

func showStatus(ctx context.Context, s *Session) error {
	st, err := Call(ctx, s, admin.StatusGet, admin.None{})
	if err != nil {
		return err
	}
	backup, err := Call(ctx, s, admin.BackupGet, admin.None{})
	if err != nil {
		return err
	}
	alerts, err := all(ctx, s, admin.AlertList, func(p admin.Page) admin.AlertListRequest { return admin.AlertListRequest{Page: p} })
	if err != nil {
		return err
	}
	return s.Show(ctx, Screen{Text: s.statusText(st, backup, alerts), Rows: s.menu()})
}

// menu leads to all that operators look at.
func (s *Session) menu() [][]Button {
	rows := [][]Button{
		Row(s.button("members", actMembers), s.button("cores", actCores)),
		Row(s.button("entries", actEntries), s.button("cells", actCells)),
		Row(s.button("tokens", actTokens), s.button("backup", actBackup)),
		Row(s.button("alerts", actAlerts)),
	}
	if s.mayChange() {
		last := len(rows) - 1
		rows[last] = append(rows[last], s.button("broadcast", actBroadcast))
	}
	return append(rows, Row(Button{Label: s.T.Plain("button.refresh"), Action: actStatus}))
}

func (s *Session) statusText(st admin.Status, backup admin.BackupView, alerts []admin.AlertView) string {
	t := s.T
	var l lines
	l.add(t.HTML("op.status.title", "version", st.Version))
	l.gap()
	l.add(s.serversLine(st))
	l.add(s.coresLine(st.Cores))
	l.add(t.HTML("op.status.entries", "mark", s.part(st.EntriesOnline, st.Entries), "online", st.EntriesOnline, "n", st.Entries))
	l.add(t.HTML("op.status.people",
		"members", t.Plain("op.status.members", "n", st.Members),
		"devices", t.Plain("op.status.devices", "n", st.Devices),
		"cells", t.Plain("op.status.cells", "n", st.Cells)))
	l.add(t.HTML("op.status.traffic", "up", t.Bytes(st.Used.Up), "down", t.Bytes(st.Used.Down)))
	mark, about := s.backupAbout(backup)
	l.add(t.HTML("op.status.backup", "mark", mark, "about", about))
	if line := s.certificatesLine(st.Server.Certificates); line != "" {
		l.add(line)
	}
	if len(alerts) > 0 {
		l.add(t.HTML("op.status.alerts", "n", len(alerts)))
	}
	s.warnings(&l, st.Warnings)
	return l.String()
}

func (s *Session) warnings(l *lines, all []string) {
	if len(all) == 0 {
		l.add(s.T.HTML("op.status.fine"))
		return
	}
	l.add(s.T.HTML("op.status.warnings"))
	for _, w := range all[:min(len(all), maxWarnings)] {
		l.add(s.T.HTML("op.status.warning", "text", w))
	}
	if more := len(all) - maxWarnings; more > 0 {
		l.add(s.T.HTML("op.status.more", "n", more))
	}
}

func (s *Session) serversLine(st admin.Status) string {
	if len(st.Server.Servers) < 2 {
		return s.T.HTML("op.status.single", "mark", s.mark("warn"))
	}
	here, leader := 0, "–"
	for _, v := range st.Server.Servers {
		if v.Here {
			here++
		}
		if v.Leader {
			leader = v.Name
		}
	}
	mark := "warn"
	if st.HighlyAvailable {
		mark = "good"
	}
	return s.T.HTML("op.status.servers", "mark", s.mark(mark), "here", here, "n", len(st.Server.Servers), "leader", leader)
}

// coresLine says how many cores are in which state, those that serve first.
func (s *Session) coresLine(by map[string]int) string {
	order := []string{string(mesh.CoreReady), string(mesh.CoreDraining), string(mesh.CoreJoined), string(mesh.CoreLost)}
	for _, state := range slices.Sorted(maps.Keys(by)) {
		if !slices.Contains(order, state) && state != string(mesh.CoreRevoked) {
			order = append(order, state)
		}
	}
	about, n := "", 0
	for _, state := range order {
		if by[state] == 0 {
			continue
		}
		if n += by[state]; about != "" {
			about += ", "
		}
		about += s.T.Plain("op.status.state", "n", by[state], "state", s.state(state))
	}
	if n == 0 {
		about = s.T.Plain("op.status.none")
	}
	return s.T.HTML("op.status.cores", "mark", s.part(by[string(mesh.CoreReady)], n), "states", about)
}

// part is how it looks that some of so many are as they should be.
func (s *Session) part(good, all int) string {
	switch {
	case good == 0:
		return s.mark("bad")
	case good < all:
		return s.mark("warn")
	}
	return s.mark("good")
}

func (s *Session) certificatesLine(all []admin.CertEnd) string {
	var first time.Time
	for _, c := range all {
		if first.IsZero() || c.Ends.Before(first) {
			first = c.Ends
		}
	}
	if first.IsZero() {
		return ""
	}
	return s.T.HTML("op.status.certificates", "mark", s.ending(first), "day", s.T.Day(first))
}

// ending is how the end of a certificate looks.
func (s *Session) ending(end time.Time) string {
	switch left := end.Sub(s.Now); {
	case left <= 0:
		return s.mark("bad")
	case left < endsSoon:
		return s.mark("warn")
	}
	return s.mark("good")
}

// traffic is what was moved, in both directions.
func traffic(t *texts.Texts, key string, v mesh.Traffic) string {
	return t.HTML(key, "up", t.Bytes(v.Up), "down", t.Bytes(v.Down))
}
