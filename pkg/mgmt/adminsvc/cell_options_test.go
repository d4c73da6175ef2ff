package adminsvc

import (
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func offers(words ...string) *[]mesh.Offer {
	out := []mesh.Offer{}
	for _, w := range words {
		var o mesh.Offer
		if err := o.UnmarshalText([]byte(w)); err != nil {
			panic(err)
		}
		out = append(out, o)
	}
	return &out
}

func TestCellSaysHowClientsGetIn(t *testing.T) {
	r := newRig(t)
	if c := r.cell("north", "a.example.net"); !slices.Equal(c.Offers, mesh.DefaultOffers()) || c.Order != "" {
		t.Errorf("a new cell has %v, ordered by %q", c.Offers, c.Order)
	}
	set := func(req admin.CellSetRequest) (admin.CellView, error) { return r.cellSet(r.ctx(), req) }
	c := must(set(admin.CellSetRequest{Ref: "north", CellOptions: admin.CellOptions{
		Offers: offers("socks-tcp", "trojan-ws"), GuestDevices: new(2), GuestConnections: new(4), GuestTraffic: new(int64(1000)),
	}}))(t)
	if want := *offers("socks-tcp", "trojan-ws"); !slices.Equal(c.Offers, want) || c.Guests != (mesh.GuestLimits{Devices: 2, Connections: 4, Traffic: 1000}) {
		t.Errorf("got %+v", c)
	}
	c = must(set(admin.CellSetRequest{Ref: "north", CellOptions: admin.CellOptions{Offers: offers(), GuestTraffic: new(int64(0))}}))(t)
	if !slices.Equal(c.Offers, mesh.DefaultOffers()) || c.Guests != (mesh.GuestLimits{Devices: 2, Connections: 4}) {
		t.Errorf("got %+v", c)
	}
	public := must(r.cellAdd(r.ctx(), admin.CellAddRequest{Name: "south", Suffix: "b.example.net", Certificate: mesh.CertificatePublic,
		CellOptions: admin.CellOptions{Order: new(mesh.OrderACME)}}))(t)
	if public.Order != mesh.OrderACME {
		t.Errorf("ordered by %q", public.Order)
	}
	for _, tt := range []struct {
		name string
		o    admin.CellOptions
		kind error
		says string
	}{
		{"an offer twice", admin.CellOptions{Offers: offers("vless-ws", "vless-ws")}, mesh.ErrInvalid, "twice"},
		{"an offer there is not", admin.CellOptions{Offers: &[]mesh.Offer{{Protocol: mesh.ProtocolSOCKS, Transport: mesh.TransportWS}}}, mesh.ErrInvalid, "socks-ws"},
		{"an order for a private cell", admin.CellOptions{Order: new(mesh.OrderACME)}, mesh.ErrConflict, "authority of its own"},
		{"an unknown order", admin.CellOptions{Order: new(mesh.CertificateOrder("fax"))}, mesh.ErrInvalid, "upload or acme"},
		{"fewer devices than none", admin.CellOptions{GuestDevices: new(-1)}, mesh.ErrInvalid, "guests"},
	} {
		_, err := set(admin.CellSetRequest{Ref: "north", CellOptions: tt.o})
		t.Run(tt.name, func(t *testing.T) { refused(t, err, tt.kind, tt.says) })
	}
}

func TestReplacedPathsWorkForTheOverlap(t *testing.T) {
	r := newRig(t)
	c := r.cell("north", "a.example.net")
	first := must(r.Store.Cells.Get(r.ctx(), c.ID))(t).Value.Paths
	if len(first) != 1 {
		t.Fatalf("a new cell has %d paths", len(first))
	}
	v := must(r.cellRotate(r.ctx(), admin.CellRotateRequest{Ref: "north", Overlap: new(mesh.Duration(time.Hour))}))(t)
	now := must(r.Store.Cells.Get(r.ctx(), c.ID))(t).Value.Paths
	if len(now) != 2 || now[0].WebSocket != first[0].WebSocket || !v.Replaced.Equal(now[0].NotAfter) || now[1].GRPC == first[0].GRPC {
		t.Errorf("paths %+v until %v", now, v.Replaced)
	}
	if a := r.audits()[0]; a.Action != "cell.rotate-paths" || a.Changes[0].After["paths"] != nil {
		t.Errorf("audit says %s, with paths %v", a.Action, a.Changes[0].After["paths"])
	}
	must(r.cellSet(r.ctx(), admin.CellSetRequest{Ref: "north", State: new(mesh.CellRetired)}))(t)
	_, err := r.cellRotate(r.ctx(), admin.CellRotateRequest{Ref: "north"})
	refused(t, err, mesh.ErrConflict, "final")
}

func TestForecastOfACellsState(t *testing.T) {
	r := newRig(t)
	m := r.member("alice")
	r.member("bob")
	south := must(r.cellAdd(r.ctx(), admin.CellAddRequest{Name: "south", Suffix: "b.example.net", CellOptions: admin.CellOptions{GuestDevices: new(1)}}))(t)
	r.core("hut", m.ID, south.ID)
	must(r.cellAdd(r.ctx(), admin.CellAddRequest{Name: "north", Suffix: "a.example.net", Fallback: []string{"south"}}))(t)
	r.device("alice", "phone", "north")
	r.device("alice", "tablet", "north")
	r.device("bob", "laptop", "north")
	r.device("bob", "old", "north")
	must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: "old", State: new(mesh.DeviceSuspended)}))(t)
	r.device("bob", "home", "south")
	of := func(cell string, state mesh.CellState) admin.CellForecast {
		t.Helper()
		return must(r.cellForecastOf(r.ctx(), admin.CellForecastRequest{Ref: cell, State: state}))(t)
	}

	f := of("north", mesh.CellCompromised)
	if f.Devices != 3 || f.Members != 2 || f.Stranded != 1 || len(f.Hosts) != 1 || f.Hosts[0].Name != "south" || f.Hosts[0].Devices != 2 || f.Hosts[0].CoresReady != 1 {
		t.Errorf("compromised: %+v", f)
	}
	if f := of("south", mesh.CellCompromised); f.Devices != 1 || f.Stranded != 1 || len(f.Hosts) != 0 || f.Dismissed != 0 {
		t.Errorf("without a fallback: %+v", f)
	}
	before := time.Now()
	v := must(r.cellSet(r.ctx(), admin.CellSetRequest{Ref: "north", State: new(mesh.CellCompromised)}))(t)
	if v.State != mesh.CellCompromised || v.Compromised.Before(before) {
		t.Errorf("got %+v", v)
	}
	if err := r.reconcile(r.ctx(), ""); err != nil {
		t.Fatal(err)
	}
	d := must(r.deviceGet(r.ctx(), admin.Ref{Ref: "phone"}))(t)
	if d.HostName != "south" || len(d.ServerNames) != 2 || !d.ServerNames[1].Under("b.example.net") || !slices.Equal(d.Via, []string{"hut"}) || d.Waiting != "" {
		t.Errorf("a guest: %+v", d)
	}
	if routes := must(r.routeGet(r.ctx(), admin.Ref{Ref: "phone"}))(t).Items; len(routes) != 1 || routes[0].Targets[0].Kind != mesh.HopCore {
		t.Errorf("its routes: %+v", routes)
	}
	if d := must(r.deviceGet(r.ctx(), admin.Ref{Ref: "tablet"}))(t); d.HostName != "" || d.Waiting != "cell north is compromised, and no fallback takes the device in" {
		t.Errorf("one for which there is no room: %+v", d)
	}
	if f := of("north", mesh.CellActive); f.Returning != 2 || len(f.Hosts) != 0 || f.Stranded != 0 {
		t.Errorf("restored: %+v", f)
	}
	if f := of("south", mesh.CellRetired); f.Dismissed != 2 || f.Stranded != 1 {
		t.Errorf("the host is retired: %+v", f)
	}
	_, err := r.cellForecastOf(r.ctx(), admin.CellForecastRequest{Ref: "north", State: "gone"})
	refused(t, err, mesh.ErrInvalid, "retired")
}
