//go:build clients

package clients

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// The cells of the story. Nobody but entries and clients needs their names.
const (
	oldCell, oldSuffix           = "old", "old.story.test"
	fallbackCell, fallbackSuffix = "refuge", "refuge.story.test"
	newCell, newSuffix           = "new", "new.story.test"
)

// A cell is compromised, its devices are guests of the fallback, as many as that
// takes in; it is restored, compromised again, replaced by a new cell with a core
// of its own, and retired. sing-box and V2Ray do nothing but fetch again.
func TestClientsFollowTheirCell(t *testing.T) {
	m := theMesh(t)
	addCell(t, m, fallbackCell, fallbackSuffix)
	addCell(t, m, oldCell, oldSuffix)
	one := 1
	setCell(t, m, admin.CellSetRequest{Ref: fallbackCell, CellOptions: admin.CellOptions{GuestDevices: &one}})
	setCell(t, m, admin.CellSetRequest{Ref: oldCell, Fallback: &[]string{fallbackCell}})
	s := subscribe(t, "story phone", oldCell)
	second := subscribe(t, "story tablet", oldCell)
	tell := func(chapter, suffix string) {
		t.Helper()
		if !t.Run(chapter, func(t *testing.T) { s.follow(t, suffix) }) {
			t.FailNow()
		}
	}

	tell("at home", oldSuffix)
	before := s.running(t, oldSuffix)

	setState(t, m, oldCell, mesh.CellCompromised)
	tell("compromised", fallbackSuffix)
	before.works(t) // who has not fetched yet is still served
	if page := string(s.served(t, "", "?format=html&lang=en")); !strings.Contains(page, "Your own servers cannot be used just now") {
		t.Error("the member is not told")
	}
	if x := call(t, m, admin.SubExplain, admin.SubExplainRequest{Ref: string(s.device.ID), UserAgent: "sing-box/1.12"}); !x.Fallback {
		t.Errorf("explained as %+v", x)
	}
	second.alone(t)

	setState(t, m, oldCell, mesh.CellActive)
	tell("restored", oldSuffix)
	if page := string(s.served(t, "", "?format=html&lang=en")); strings.Contains(page, "Your own servers cannot be used just now") {
		t.Error("the member is still told so")
	}

	setState(t, m, oldCell, mesh.CellCompromised)
	tell("compromised again", fallbackSuffix)
	guest := s.running(t, fallbackSuffix)

	addCell(t, m, newCell, newSuffix)
	cell := newCell
	for _, d := range []subscriber{s, second} {
		call(t, m, admin.DeviceSet, admin.DeviceSetRequest{Ref: string(d.device.ID), Cell: &cell})
	}
	tell("moved to the new cell", newSuffix)
	second.follow(t, newSuffix)
	before.works(t) // who has not fetched since is still served where it was
	guest.works(t)

	setState(t, m, oldCell, mesh.CellRetired)
	tell("the old cell retired", newSuffix)
	before.ends(t)
	guest.works(t)
}

// addCell makes a cell with a core.
func addCell(t *testing.T, m *dev.Mesh, name, suffix string) {
	t.Helper()
	call(t, m, admin.CellAdd, admin.CellAddRequest{Name: name, Suffix: suffix})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := m.AddCore(ctx, "core-"+name, name); err != nil {
		t.Fatal(err)
	}
	rolledOut(t, m)
}

func setState(t *testing.T, m *dev.Mesh, cell string, state mesh.CellState) {
	t.Helper()
	setCell(t, m, admin.CellSetRequest{Ref: cell, State: &state})
}

// storyClients are the programs of the story.
func storyClients(t *testing.T) []local {
	t.Helper()
	return slices.DeleteFunc(locals(t), func(l local) bool { return l.program != "sing-box" && l.program != "v2ray" })
}

var serverNames = regexp.MustCompile(`"(?:server_name|serverName)": "([^"]+)"`)

// suffixes are the cells of which a document has names.
func suffixes(body []byte) []string {
	var out []string
	for _, m := range serverNames.FindAllSubmatch(body, -1) {
		if _, suffix, _ := strings.Cut(string(m[1]), "."); !slices.Contains(out, suffix) {
			out = append(out, suffix)
		}
	}
	return out
}

// fetched waits until a program is served names of one cell and no other.
func (s subscriber) fetched(t *testing.T, l local, suffix string) []byte {
	t.Helper()
	var body []byte
	until(t, func(ctx context.Context) (err error) {
		if body, err = s.fetch(ctx, l.agent, ""); err != nil {
			return err
		}
		if got := suffixes(body); !slices.Equal(got, []string{suffix}) {
			return fmt.Errorf("%s is served names of %q, want %s", l.row, got, suffix)
		}
		return nil
	})
	return body
}

// follow has each program fetch, start anew, and use every way in.
func (s subscriber) follow(t *testing.T, suffix string) {
	t.Helper()
	for _, l := range storyClients(t) {
		body := s.fetched(t, l, suffix)
		for _, n := range l.nodes(t, body) {
			via := l.run(t, body, n.tag)
			until(t, via.pages)
			if carriesUDP(n.offer) {
				until(t, via.dns)
			}
		}
	}
}

// clients are running programs of one document.
type clients []socks

// running starts the programs, which then never fetch again.
func (s subscriber) running(t *testing.T, suffix string) (out clients) {
	t.Helper()
	for _, l := range storyClients(t) {
		body := s.fetched(t, l, suffix)
		out = append(out, l.run(t, body, l.nodes(t, body)[0].tag))
	}
	out.works(t)
	return out
}

func (c clients) works(t *testing.T) {
	t.Helper()
	for _, via := range c {
		until(t, via.pages)
	}
}

// ends waits until none of them has a page.
func (c clients) ends(t *testing.T) {
	t.Helper()
	for _, via := range c {
		until(t, func(ctx context.Context) error {
			if _, err := fetch(ctx, via.http(patience), run.origin.url("/page")); err == nil {
				return fmt.Errorf("names that have ended are served")
			}
			return nil
		})
	}
}

// alone is a device that the fallback has no room for: it stays where it is, and
// is told so.
func (s subscriber) alone(t *testing.T) {
	t.Helper()
	for _, l := range storyClients(t) {
		if got := suffixes(s.served(t, l.agent, "")); slices.Contains(got, fallbackSuffix) {
			t.Errorf("%s is served names of %q beyond what a member may have", l.row, got)
		}
	}
}
