package cmd

import (
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestForecastInWords(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    admin.CellForecast
		to   mesh.CellState
		want string
	}{
		{"nobody is there", admin.CellForecast{State: mesh.CellActive}, mesh.CellCompromised,
			"No device is served there. Its own names go on working for clients that have them, but are given to nobody."},
		{"a fallback takes in most", admin.CellForecast{State: mesh.CellActive, Devices: 3, Members: 2, Stranded: 1,
			Hosts: []admin.CellHost{{Name: "sou\x1bth", Devices: 2, CoresReady: 1}}}, mesh.CellCompromised,
			"It serves 3 devices of 2 members. Cell sou\ufffdth takes in 2, with 1 core ready. No fallback takes in 1: their clients get a notice instead of a way in. " +
				"Its own names go on working for clients that have them, but are given to nobody."},
		{"guests come home", admin.CellForecast{State: mesh.CellCompromised, Devices: 1, Members: 1, Returning: 1}, mesh.CellActive,
			"It serves 1 device of 1 member. 1 of them come back from a fallback, which serves them on until the overlap ends. Its names are given to clients again."},
		{"a host goes", admin.CellForecast{State: mesh.CellActive, Dismissed: 2}, mesh.CellRetired,
			"No device is served there. 2 guests of other cells lose it as their fallback. Its own names stop at once; this cannot be undone."},
		{"it is so", admin.CellForecast{State: mesh.CellRetired}, mesh.CellRetired, "It is so already."},
	} {
		if got := forecastText(tt.f, tt.to); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestWaysInAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]string{"": "", "default": "", "vless-ws": "vless-ws", " trojan-tcp": "trojan-tcp"} {
		got, err := parseOffers([]string{text})
		if err != nil || listOf(got) != want {
			t.Errorf("%q: got %v (%v), want %s", text, got, err, want)
		}
	}
	for _, bad := range [][]string{{"vless"}, {"default", "vless-ws"}, {"vless-ws", ""}} {
		if got, err := parseOffers(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

// What went wrong is said after the act too: with --yes nobody has read it before.
func TestAFallbackWithoutACoreIsWarnedOf(t *testing.T) {
	f := admin.CellForecast{Cell: "cell-aaaaaaaaaaaaaaaa", Devices: 3, Hosts: []admin.CellHost{{Name: "empty", Devices: 2}, {Name: "good", Devices: 1, CoresReady: 1}}}
	for to, want := range map[mesh.CellState]bool{mesh.CellCompromised: true, mesh.CellRetired: true, mesh.CellActive: false} {
		got := afterwards(f, to)
		if strings.Contains(got, "warning: cell empty takes in 2 devices and has no core that is ready") != want || strings.Contains(got, "cell good") {
			t.Errorf("%s: %s", to, got)
		}
	}
}
