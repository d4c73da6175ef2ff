package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// loseServer kills the server that leads while clients are at work, and brings it
// back. It returns an error when a client noticed.
func (m *Mesh) loseServer(ctx context.Context) error {
	var t *traffic
	err := m.step(ctx, fmt.Sprintf("%d new connections a second and a download begun", perSecond), func(ctx context.Context) (err error) {
		t, err = m.startTraffic(ctx)
		return err
	})
	if err != nil {
		return err
	}
	defer t.end()
	if err := m.step(ctx, "a second with all three", func(ctx context.Context) error { return t.seen(ctx, perSecond) }); err != nil {
		return err
	}
	lost, err := m.leader(ctx)
	if err != nil {
		return err
	}
	rest := (lost + 1) % len(m.Servers)
	p, other := m.Servers[lost], m.Servers[rest].Name
	for _, s := range []demoStep{
		{p.Name + ", which leads etcd, killed (SIGKILL)", func(context.Context) error { return p.Kill() }},
		{"changes work again, asked of " + other, func(ctx context.Context) error {
			m.Admin = m.sockets[rest]
			return m.addAgain(ctx)
		}},
		{"a second without " + p.Name, func(ctx context.Context) error { return t.seen(ctx, perSecond) }},
		{p.Name + " started again, ready", func(ctx context.Context) error {
			if err := m.Start(p); err != nil {
				return err
			}
			return p.Ready(ctx)
		}},
		{p.Name + " caught up, any one may fail again", func(ctx context.Context) error { return m.caughtUp(ctx, lost) }},
		{"a second with all three again", func(ctx context.Context) error { return t.seen(ctx, perSecond) }},
	} {
		if err := m.step(ctx, s.what, s.run); err != nil {
			return err
		}
	}
	saw := t.end()
	m.say(fmt.Sprintf("clients meanwhile: %d new connections made, %d failed; download %s", saw.made, saw.failed, cutOrNot(saw.cut)))
	m.say(fmt.Sprintf("longest stall of the download %.2f s, slowest new connection %.2f s", saw.stall.Seconds(), saw.slowest.Seconds()))
	return saw.fault()
}

func cutOrNot(cut error) string {
	if cut != nil {
		return "cut"
	}
	return "not cut"
}

// leader is the place in Servers of the one that leads etcd.
func (m *Mesh) leader(ctx context.Context) (int, error) {
	list, err := admin.MgmtList.Call(ctx, m.Admin, admin.Page{})
	if err != nil {
		return 0, err
	}
	for _, l := range list.Items {
		if i := slices.IndexFunc(m.Servers, func(p *Process) bool { return p.Name == l.Name }); l.Leader && i >= 0 {
			return i, nil
		}
	}
	return 0, fmt.Errorf("dev: no server leads: %w", mesh.ErrUnavailable)
}

// addAgain makes a change as soon as one can be made. A try that got no answer
// may have succeeded.
func (m *Mesh) addAgain(ctx context.Context) error {
	return until(ctx, func(ctx context.Context) error {
		_, err := admin.MemberAdd.Call(ctx, m.Admin, admin.MemberAddRequest{Name: secondMember})
		if errors.Is(err, mesh.ErrExists) {
			return nil
		}
		return err
	})
}

// caughtUp waits until the etcd of one server has all that the others have, and
// all are well.
func (m *Mesh) caughtUp(ctx context.Context, of int) error {
	var want int64
	for i, cc := range m.sockets {
		if i == of {
			continue
		}
		s, err := admin.ServerStatusGet.Call(ctx, cc, admin.None{})
		if err != nil {
			return err
		}
		want = max(want, s.Etcd.Revision)
	}
	err := until(ctx, func(ctx context.Context) error {
		s, err := admin.ServerStatusGet.Call(ctx, m.sockets[of], admin.None{})
		if err == nil && s.Etcd.Revision < want {
			err = fmt.Errorf("dev: %s is at revision %d, the others at %d: %w", m.Servers[of].Name, s.Etcd.Revision, want, mesh.ErrUnavailable)
		}
		return err
	})
	if err != nil {
		return err
	}
	return m.allWell(ctx)
}

// say reports a line that is no step.
func (m *Mesh) say(line string) {
	if m.Say != nil {
		m.Say(line)
	}
}
