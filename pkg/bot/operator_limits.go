package bot

import (
	"context"
	"strconv"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Actions about a device's limits.
const (
	actLimits   = "dL"
	actLimit    = "dn"
	actLimitAsk = "dN"
	actLimitSet = "do"
)

// limit is one of them, by the word that commands and buttons have for it.
type limit string

const (
	limitTraffic     limit = "traffic"
	limitExpires     limit = "expires"
	limitConnections limit = "connections"
)

// offers are what buttons set a limit to, as people write it.
func (l limit) offers() []string {
	switch l {
	case limitTraffic:
		return []string{"10GB", "50GB", "100GB", "500GB"}
	case limitExpires:
		return []string{"30d", "90d", "365d"}
	}
	return []string{"4", "16", "64"}
}

// none is how no limit is written.
func (l limit) none() string {
	return map[limit]string{limitTraffic: "unlimited", limitExpires: "never", limitConnections: "0"}[l]
}

// short is the limit in a button's data.
func (l limit) short() string { return string(l)[:1] }

func limitOf(short string) limit {
	for _, l := range []limit{limitTraffic, limitExpires} {
		if l.short() == short {
			return l
		}
	}
	return limitConnections
}

func opLimits() Routes {
	return Routes{
		Actions: []Action{
			looks(actLimits, by(showLimits)),
			looks(actLimit, func(ctx context.Context, s *Session, args []string) error {
				return showLimit(ctx, s, arg(args, 0), limitOf(arg(args, 1)))
			}),
			looks(actLimitAsk, func(ctx context.Context, s *Session, args []string) error {
				return askLimit(ctx, s, arg(args, 0), limitOf(arg(args, 1)))
			}),
			deed(actLimitSet, func(ctx context.Context, s *Session, args []string) error {
				return limitDevice(ctx, s, arg(args, 0), string(limitOf(arg(args, 1))), arg(args, 2))
			}),
		},
		Answers: []Answer{
			answers("op-limit-traffic", answerLimit(limitTraffic)),
			answers("op-limit-expires", answerLimit(limitExpires)),
			answers("op-limit-connections", answerLimit(limitConnections)),
		},
	}
}

func showLimits(ctx context.Context, s *Session, ref string) error {
	d, err := Call(ctx, s, admin.DeviceGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	id := string(d.ID)
	var l lines
	l.add(s.T.HTML("op.device.limits", "name", d.Name))
	l.gap()
	rows := [][]Button{}
	for _, kind := range []limit{limitTraffic, limitExpires, limitConnections} {
		l.add(s.T.HTML("op.device.limits-"+string(kind), "about", s.limitAbout(kind, d.Limits)))
		label := s.T.Plain("op.device.limits-button." + string(kind))
		rows = append(rows, Row(Button{Label: label, Action: actLimit, Args: []string{id, kind.short()}}))
	}
	return s.Show(ctx, Screen{Text: l.String(), Rows: append(rows, Row(s.back(actDevice, id)))})
}

func (s *Session) limitAbout(kind limit, l mesh.Limits) string {
	switch {
	case kind == limitTraffic && l.Traffic > 0:
		return s.T.Bytes(l.Traffic)
	case kind == limitExpires && !l.Expires.IsZero():
		return s.T.Moment(l.Expires)
	case kind == limitConnections && l.Connections > 0:
		return strconv.Itoa(l.Connections)
	case kind == limitExpires:
		return s.T.Plain("op.device.endless")
	}
	return s.T.Plain("op.device.unlimited")
}

func showLimit(ctx context.Context, s *Session, ref string, kind limit) error {
	d, err := Call(ctx, s, admin.DeviceGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	id := string(d.ID)
	var offers []Button
	for _, offer := range kind.offers() {
		offers = append(offers, Button{Label: s.offerLabel(kind, offer), Action: actLimitSet, Args: []string{id, kind.short(), offer}})
	}
	none := s.button("none", actLimitSet, id, kind.short(), kind.none())
	if kind == limitExpires {
		none.Label = s.T.Plain("op.button.never")
	}
	text := s.T.HTML("op.device.limits", "name", d.Name) + "\n\n" +
		s.T.HTML("op.device.limits-"+string(kind), "about", s.limitAbout(kind, d.Limits))
	return s.Show(ctx, Screen{Text: text, Rows: [][]Button{
		offers, Row(none, s.button("other", actLimitAsk, id, kind.short())), Row(s.back(actLimits, id)),
	}})
}

// offerLabel writes what a button sets in the user's language.
func (s *Session) offerLabel(kind limit, offer string) string {
	switch kind {
	case limitTraffic:
		if n, err := mesh.ParseSize(offer); err == nil {
			return s.T.Bytes(n)
		}
	case limitExpires:
		if d, err := mesh.ParseSpan(offer); err == nil {
			return s.T.Plain("op.button.plus", "span", s.T.Span(d))
		}
	}
	return offer
}

func askLimit(ctx context.Context, s *Session, ref string, kind limit) error {
	d, err := Call(ctx, s, admin.DeviceGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	return askLimitIn(ctx, s, string(d.ID), kind, s.T.HTML("op.device.ask-"+string(kind), "name", d.Name))
}

func askLimitIn(ctx context.Context, s *Session, id string, kind limit, text string) error {
	return s.Ask(ctx, "op-limit-"+string(kind), id, Screen{Text: text, Rows: [][]Button{Row(s.back(actLimit, id, kind.short()))}})
}

func answerLimit(kind limit) func(context.Context, *Session, string, string) error {
	return func(ctx context.Context, s *Session, id, text string) error {
		if _, ok := kind.set(admin.DeviceSetRequest{}, text, s.Now); !ok {
			return askLimitIn(ctx, s, id, kind, s.T.HTML("op.device.bad-"+string(kind)))
		}
		return limitDevice(ctx, s, id, string(kind), text)
	}
}

// limitDevice sets one limit to what somebody wrote.
func limitDevice(ctx context.Context, s *Session, ref, kind, text string) error {
	l := limit(kind)
	if l.none() == "" {
		return usage(ctx, s, "device")
	}
	req, ok := l.set(admin.DeviceSetRequest{Ref: ref}, text, s.Now)
	if !ok {
		_, err := s.Say(ctx, Screen{Text: s.T.HTML("op.device.bad-" + kind)})
		return err
	}
	_, err := Call(ctx, s, admin.DeviceSet, req)
	return s.after(err, "changed", func(note string) error { return deviceCard(ctx, s, ref, note) })
}

// set adds the limit to a request; false when the text says none.
func (l limit) set(req admin.DeviceSetRequest, text string, now time.Time) (admin.DeviceSetRequest, bool) {
	switch l {
	case limitTraffic:
		n, err := mesh.ParseSize(text)
		req.Traffic = &n
		return req, err == nil
	case limitExpires:
		at, err := mesh.ParseExpiry(text, now)
		req.Expires = &at
		return req, err == nil
	}
	n, ok := parseCount(text, 1<<20)
	req.Connections = &n
	return req, ok
}
