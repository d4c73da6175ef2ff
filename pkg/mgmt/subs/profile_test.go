package subs

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/subscription"
)

func (w *world) profileOf(t testing.TB, id mesh.DeviceID) subscription.Profile {
	t.Helper()
	w.index.rebuild()
	p, err := w.Profile(id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// cellsOf are the cells of a profile's nodes, and why others are left out.
func cellsOf(p subscription.Profile) (cells string, why string) {
	var in, left []string
	for _, n := range p.Nodes {
		if len(in) == 0 || in[len(in)-1] != n.Cell {
			in = append(in, n.Cell)
		}
	}
	for _, l := range p.Hidden {
		left = append(left, l.Reason)
	}
	return strings.Join(in, " "), strings.Join(left, "; ")
}

func TestNodesAreTheWaysIn(t *testing.T) {
	w := start(t)
	w.change(func() { w.config.EntryAddresses = []string{"entry.example.net:443", "[2001:db8::1]:8443", "nonsense"} })
	var paths mesh.Paths
	cell := w.addCell("Berlin", func(c *mesh.Cell) {
		c.Offers = mesh.Offers()
		c.Certificate, c.CACert = mesh.CertificatePrivate, "PEM"
		c.RotatePaths(time.Now(), time.Hour)
		paths = c.Paths[len(c.Paths)-1]
	})
	id, _ := w.addDevice(w.addMember("ada"), cell, func(d *mesh.Device) { d.RotateLabel(time.Now(), time.Hour) })
	d, _ := w.facts.Device(id)
	p := w.profileOf(t, id)
	if want := 2 * len(mesh.Offers()); len(p.Nodes) != want {
		t.Fatalf("%d nodes, want %d", len(p.Nodes), want)
	}
	secret := w.secrets[id]
	names := map[string]bool{}
	for i, n := range p.Nodes {
		host, port := "entry.example.net", uint16(443)
		if i%2 == 1 {
			host, port = "2001:db8::1", 8443
		}
		if n.Host != host || n.Port != port || n.Offer != mesh.Offers()[i/2] || n.CA != "PEM" || n.Cell != "Berlin" || n.Guest ||
			n.ServerName != mesh.ServerName(d.Labels[1].Label)+"."+w.Cells()[cell].Suffix ||
			n.HiddenHost != mesh.ServerName(d.HiddenLabel)+"."+w.Cells()[cell].Suffix ||
			n.User != string(id) || n.Password != secret || n.UUID != secret.UserID(id) {
			t.Errorf("node %d: %+v", i, n)
		}
		if (n.Path == paths.WebSocket) != (n.Offer.Transport == mesh.TransportWS) || (n.Service == paths.GRPC) != (n.Offer.Transport == mesh.TransportGRPC) {
			t.Errorf("node %d: path %q, service %q", i, n.Path, n.Service)
		}
		if names[n.Name] {
			t.Errorf("two nodes are named %q", n.Name)
		}
		names[n.Name] = true
	}
}

func TestWhatCannotBeUsedIsLeftOut(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		cell   func(*mesh.Cell)
		device func(*mesh.Device)
		config func(*mesh.Config)
		nodes  int
		why    string
	}{
		"a cell without paths":         {cell: func(c *mesh.Cell) { c.Paths = nil }, nodes: 3, why: "no path for this transport"},
		"paths that have ended":        {cell: func(c *mesh.Cell) { c.Paths[0].NotAfter = now.Add(-time.Second) }, nodes: 3, why: "no path for this transport"},
		"no entry address":             {config: func(c *mesh.Config) { c.EntryAddresses = nil }, why: "no entry address"},
		"labels that have ended":       {device: func(d *mesh.Device) { d.Labels[0].NotAfter = now.Add(-time.Second) }, why: "no label"},
		"an authority that is not yet": {cell: func(c *mesh.Cell) { c.Certificate = mesh.CertificatePrivate }, why: "no certificate yet"},
		"all is there":                 {nodes: 5},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			none := func(*mesh.Cell) {}
			if tt.cell != nil {
				none = tt.cell
			}
			if tt.config != nil {
				w.change(func() { tt.config(&w.config) })
			}
			id, _ := w.addDevice(w.addMember("ada"), w.addCell("Berlin", none))
			if tt.device != nil {
				w.setDevice(id, tt.device)
			}
			p := w.profileOf(t, id)
			if _, why := cellsOf(p); len(p.Nodes) != tt.nodes || !strings.Contains(why, tt.why) || (why == "") != (tt.why == "") {
				t.Errorf("%d nodes, left out: %q; want %d, %q", len(p.Nodes), why, tt.nodes, tt.why)
			}
		})
	}
}

// New paths are given once cores answer them: until then, and if they refuse, those
// that they have.
func TestPathsAreGivenThatCoresAnswer(t *testing.T) {
	w := start(t)
	now := time.Now()
	var before, after mesh.Cell
	cell := w.addCell("Berlin", func(c *mesh.Cell) {
		before = *c
		c.RotatePaths(now, time.Hour)
		after = *c
	})
	id, _ := w.addDevice(w.addMember("ada"), cell)
	for what, tt := range map[string]struct {
		running mesh.NodeConfig
		want    string
	}{
		"cores run what was":    {mesh.CellConfig(before, nil, now), before.Paths[0].WebSocket},
		"cores run what is":     {mesh.CellConfig(after, nil, now), after.Paths[1].WebSocket},
		"it is not known":       {mesh.NodeConfig{}, after.Paths[1].WebSocket},
		"none of both is known": {mesh.CellConfig(mesh.Cell{Paths: []mesh.Paths{mesh.NewPaths()}}, nil, now), after.Paths[1].WebSocket},
	} {
		w.change(func() { w.facts.running = map[mesh.CellID]mesh.NodeConfig{cell: tt.running} })
		for _, n := range w.profileOf(t, id).Nodes {
			if n.Offer.Transport == mesh.TransportWS && n.Path != tt.want {
				t.Errorf("%s: path %s, want %s", what, n.Path, tt.want)
			}
		}
	}
}

// A new label is given once entries know it; while none is known, the newest is.
func TestLabelsAreGivenThatEntriesKnow(t *testing.T) {
	w := start(t)
	cell := w.addCell("Berlin")
	id, _ := w.addDevice(w.addMember("ada"), cell, func(d *mesh.Device) { d.RotateLabel(time.Now(), time.Hour) })
	d, _ := w.facts.Device(id)
	want := func(what string, label mesh.Label) {
		t.Helper()
		name := mesh.ServerName(label.Label) + "." + w.Cells()[cell].Suffix
		if n := w.profileOf(t, id).Nodes[0]; n.ServerName != name {
			t.Errorf("%s: %s, want %s", what, n.ServerName, name)
		}
	}
	route := func(label mesh.Label, on bool) {
		w.change(func() { w.routes[mesh.ServerName(label.Label)+"."+w.cells[cell].Suffix] = on })
	}
	want("neither has a route", d.Labels[1])
	route(d.Labels[0], true)
	want("the old one has", d.Labels[0])
	route(d.Labels[1], true)
	want("both have", d.Labels[1])
	w.setDevice(id, func(d *mesh.Device) { d.Labels[1].NotAfter = time.Now().Add(-time.Second) })
	want("the newest has ended", d.Labels[0])
}

// A cell is compromised: at the next look the client has the names of the
// fallback; when it is well again, its own.
func TestACompromisedCellsNamesAreNotGiven(t *testing.T) {
	w := start(t)
	ada := w.addMember("ada")
	second := w.addCell("Oslo", func(c *mesh.Cell) { c.Guests = mesh.GuestLimits{Devices: 1, Traffic: 1000} })
	first := w.addCell("Berlin", func(c *mesh.Cell) { c.Fallback = []mesh.CellID{second} })
	id, _ := w.addDevice(ada, first, func(d *mesh.Device) { d.Created = time.Unix(1, 0) })
	late, _ := w.addDevice(ada, first)
	want := func(id mesh.DeviceID, cells, why string) {
		t.Helper()
		p := w.profileOf(t, id)
		gotCells, gotWhy := cellsOf(p)
		if gotCells != cells || !strings.Contains(gotWhy, why) || (gotWhy == "") != (why == "") {
			t.Errorf("cells %q, left out %q; want %q, %q", gotCells, gotWhy, cells, why)
		}
		for _, n := range p.Nodes {
			if n.Guest != (n.Cell == "Oslo") {
				t.Errorf("node %s: guest %v", n.Name, n.Guest)
			}
		}
	}
	want(id, "Berlin", "")
	w.setCell(first, func(c *mesh.Cell) { c.State = mesh.CellCompromised })
	want(id, "Oslo", "the cell is compromised")
	want(late, "", "no fallback takes the device in")
	w.change(func() {
		k := mesh.SpentGuests(second, ada)
		w.spent[k] = mesh.Spent{ID: k, Moved: mesh.Traffic{Up: 1000}}
	})
	want(id, "", "no fallback takes the device in")
	w.setCell(second, func(c *mesh.Cell) { c.Guests = mesh.GuestLimits{} })
	want(late, "Oslo", "the cell is compromised")
	w.setCell(second, func(c *mesh.Cell) { c.State = mesh.CellRetired })
	want(id, "", "there is none that is active")
	w.setCell(first, func(c *mesh.Cell) { c.State = mesh.CellActive })
	want(id, "Berlin", "")
}

// What is left of where a device was served earlier is given to nobody.
func TestNamesOfEarlierPlacesAreNotGiven(t *testing.T) {
	w := start(t)
	ada := w.addMember("ada")
	host, old, home := w.addCell("Oslo"), w.addCell("Bonn"), w.addCell("Berlin")
	id, _ := w.addDevice(ada, home)
	until := time.Now().Add(time.Hour)
	want := func(cells string, why ...string) {
		t.Helper()
		gotCells, gotWhy := cellsOf(w.profileOf(t, id))
		if gotCells != cells || strings.Count(gotWhy, "served there earlier") != len(why) {
			t.Errorf("cells %q, left out %q", gotCells, gotWhy)
		}
		for _, s := range why {
			if !strings.Contains(gotWhy, s) {
				t.Errorf("left out %q, want %q", gotWhy, s)
			}
		}
	}
	w.setCell(home, func(c *mesh.Cell) { c.Earlier = []mesh.EarlierPlace{{Cell: host, Guest: true, NotAfter: until}} })
	want("Berlin", "until "+until.UTC().Format("2006-01-02 15:04"))
	w.setDevice(id, func(d *mesh.Device) { d.Earlier = []mesh.EarlierPlace{{Cell: old, NotAfter: until}} })
	want("Berlin", "", "")
	w.setCell(home, func(c *mesh.Cell) { c.State = mesh.CellCompromised })
	want("", "", "")
	w.setCell(home, func(c *mesh.Cell) { c.Fallback = []mesh.CellID{host} })
	want("Oslo", "")
	w.setDevice(id, func(d *mesh.Device) { d.Earlier[0].NotAfter = time.Now() })
	want("Oslo")
}

// S-06, S-08: who is not served gets a valid answer that says so.
func TestStandings(t *testing.T) {
	now := time.Now()
	for standing, do := range map[mesh.Standing]func(w *world, m mesh.MemberID, d mesh.DeviceID){
		mesh.StandingOK: func(*world, mesh.MemberID, mesh.DeviceID) {},
		mesh.StandingSuspended: func(w *world, m mesh.MemberID, _ mesh.DeviceID) {
			w.setMember(m, func(m *mesh.Member) { m.State = mesh.MemberSuspended })
		},
		mesh.StandingExpired: func(w *world, _ mesh.MemberID, d mesh.DeviceID) {
			w.setDevice(d, func(d *mesh.Device) { d.Limits.Expires = now.Add(-time.Hour) })
		},
		mesh.StandingExhausted: func(w *world, _ mesh.MemberID, d mesh.DeviceID) {
			w.setDevice(d, func(d *mesh.Device) { d.Limits.Traffic = 100 })
			w.change(func() { w.spent[string(d)] = mesh.Spent{ID: string(d), Moved: mesh.Traffic{Up: 100}} })
		},
	} {
		t.Run(string(standing), func(t *testing.T) {
			w := start(t)
			ada := w.addMember("ada")
			id, secret := w.addDevice(ada, w.addCell("Berlin"))
			do(w, ada, id)
			w.known(t, secret)
			p := w.profileOf(t, id)
			if p.Standing != standing || (len(p.Nodes) > 0) != (standing == mesh.StandingOK) {
				t.Errorf("standing %s with %d nodes", p.Standing, len(p.Nodes))
			}
			for _, f := range subscription.Formats() {
				if r := w.ask("/s/"+secret.Reveal()+"?format="+string(f), "192.0.2.1:1"); r.Code != http.StatusOK || r.Body.Len() == 0 {
					t.Errorf("%s: %d, %d bytes", f, r.Code, r.Body.Len())
				}
			}
		})
	}
}

// S-10: without a quorum the answer comes from memory, at once, and says how old
// it is.
func TestAnswersWithoutAQuorum(t *testing.T) {
	clock := newClock()
	w := start(t, func(s *Service) { s.Now = clock.now })
	id, secret := w.addDevice(w.addMember("ada"), w.addCell("Berlin"))
	w.change(func() { w.moved[id] = mesh.DeviceTotal{Traffic: mesh.Traffic{Up: 7, Down: 8}} })
	w.known(t, secret)
	w.change(func() { w.away = true })
	clock.add(time.Hour)
	c := w.client(t, w.entry(t, "entry-1"), true)
	began := time.Now()
	r := get(t, c, secret)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	asOf, err := time.Parse(time.RFC3339, r.header.Get("Subscription-As-Of"))
	if age := clock.now().Sub(asOf); r.status != http.StatusOK || err != nil || age < 59*time.Minute || age > 61*time.Minute {
		t.Errorf("%d, as of %v (%v), which is %v ago", r.status, asOf, err, age)
	}
	if p := w.profileOf(t, id); !p.Stale {
		t.Error("the profile does not say that it is old")
	}
	w.change(func() { w.away = false })
	eventually(t, "fresh again", func() bool { return !w.profileOf(t, id).Stale })
}

func TestTrafficIsShownAsFarAsItIsKnown(t *testing.T) {
	clock := newClock()
	w := start(t, func(s *Service) { s.Now = clock.now })
	id, _ := w.addDevice(w.addMember("ada"), w.addCell("Berlin"), func(d *mesh.Device) {
		d.Limits.Traffic = 1000
		d.Reset = mesh.TrafficReset{Used: mesh.Traffic{Up: 10}}
	})
	w.change(func() { w.moved[id] = mesh.DeviceTotal{Traffic: mesh.Traffic{Up: 110, Down: 50}} })
	clock.add(2 * trafficEvery)
	eventually(t, "traffic is added up", func() bool { return w.profileOf(t, id).Up == 100 })
	if p := w.profileOf(t, id); p.Down != 50 || p.Limit != 1000 {
		t.Errorf("down %d of %d", p.Down, p.Limit)
	}
}
