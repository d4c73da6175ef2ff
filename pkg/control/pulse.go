package control

import (
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
)

// tick sends a ping when one is due, and returns errSilent when two were
// missed: the second gets a third of the interval to be answered, so that a
// dead stream is known after at most two intervals and a third. Call it three
// times per interval. Ticks come a little late and then a little early: what is
// due by the next half of a tick is due now, or it would wait for a whole one.
func (s *session) tick(now time.Time) error {
	every := s.home.pingEvery()
	past, early := now.Sub(s.pingedAt), every/6
	if s.pinged-s.ponged >= missedPings && past >= every/3-early {
		return errSilent
	}
	if s.told != "" && s.told != s.home.serial() {
		if err := s.report(); err != nil { // of the new certificate: servers wait for it
			return err
		}
	}
	if past < every-early {
		return nil
	}
	if !s.welcomed {
		return errSilent
	}
	s.pinged++
	s.pingedAt = now
	return s.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Ping{Ping: &controlpb.Ping{Sequence: s.pinged}}})
}

// pong confirms the reports that were sent before that ping.
func (s *session) pong(seq int64) {
	if seq > s.pinged {
		return
	}
	s.ponged = max(s.ponged, seq)
	for len(s.unconfirmed) > 0 && s.unconfirmed[0].ping <= s.ponged {
		s.unconfirmed = s.unconfirmed[1:]
	}
}

// report sends what the role has to tell and keeps it until it has arrived.
func (s *session) report() error {
	if !s.welcomed {
		return nil
	}
	r := s.home.Role.Report()
	if r == nil {
		return nil
	}
	s.told = s.home.serial()
	r.Certificate = s.told
	s.unconfirmed = append(s.unconfirmed, sentReport{report: r, ping: s.pinged + 1})
	return s.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: r}})
}

// end gives back the reports that may not have arrived. One of them may arrive
// twice then, which Report.metered allows for; none is lost.
func (s *session) end() {
	back, ok := s.home.Role.(Restorer)
	if !ok {
		return
	}
	for _, u := range s.unconfirmed {
		back.Unsent(u.report)
	}
	s.unconfirmed = nil
}

func (p *PhoneHome) serial() string { return p.Node.Leaf().SerialNumber.String() }

func (p *PhoneHome) pingEvery() time.Duration {
	if p.PingEvery > 0 {
		return p.PingEvery
	}
	return 15 * time.Second
}

func (p *PhoneHome) reportEvery() time.Duration {
	if p.ReportEvery > 0 {
		return p.ReportEvery
	}
	return 30 * time.Second
}
