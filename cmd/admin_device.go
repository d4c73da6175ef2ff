package cmd

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func deviceNoun() noun[admin.DeviceView] {
	name := func(d admin.DeviceView) string { return d.Name }
	return noun[admin.DeviceView]{
		one: "device", many: "devices",
		empty: "add one with `meshctl admin device add MEMBER NAME --cell CELL`",
		id:    func(d admin.DeviceView) string { return string(d.ID) },
		label: name,
		// A device's name is unique within its member only.
		refs: refs(admin.DeviceList, func(p admin.Page) (admin.DeviceListRequest, error) {
			return admin.DeviceListRequest{Page: p}, nil
		}, func(d admin.DeviceView) string { return d.MemberName + "/" + d.Name }),
		columns: []column[admin.DeviceView]{
			text("NAME", name),
			text("MEMBER", func(d admin.DeviceView) string { return d.MemberName }),
			text("STATE", deviceState),
			text("CELL", func(d admin.DeviceView) string { return d.CellName }),
			text("VIA", func(d admin.DeviceView) string { return cmp.Or(listOf(d.Via), "(none)") }),
			text("MOVED", func(d admin.DeviceView) string { return inAll(d.Used) }),
			{"EXPIRES", func(d admin.DeviceView, now time.Time) string { return age(d.Limits.Expires, now) }},
			{"AGE", func(d admin.DeviceView, now time.Time) string { return age(d.Created, now) }},
			text("ID", func(d admin.DeviceView) string { return string(d.ID) }),
		},
		fields: deviceFields,
	}
}

func deviceFields(d admin.DeviceView, now time.Time) []field {
	return []field{
		{"Name", d.Name},
		{"Id", string(d.ID)},
		{"State", deviceState(d)},
		{"Member", named(d.MemberName, string(d.Member))},
		{"Cell", named(d.CellName, string(d.Cell))},
		{"Guest in", named(d.HostName, string(d.Host))},
		{"Core", named(d.CoreName, string(d.Core))},
		{"Server names", listOf(d.ServerNames)},
		{"Replaced names end", at(d.Replaced, now)},
		{"Served on in", earlierPlaces(d, now)},
		{"Via", cmp.Or(listOf(d.Via), "none")},
		{"Waiting", d.Waiting},
		{"Connections", limitOf(int64(d.Limits.Connections), count(d.Limits.Connections))},
		{"Traffic", trafficOf(d, now)},
		{"Expires", cmp.Or(at(d.Limits.Expires, now), "never")},
		{"Moved", moved(d.Used)},
		{"Last used", at(d.LastUsed, now)},
		{"Link", cmp.Or(at(d.Linked, now), "none")},
		{"Created", at(d.Created, now)},
	}
}

// earlierPlaces are the cells that a device was moved from, and for how long they
// still serve it.
func earlierPlaces(d admin.DeviceView, now time.Time) string {
	var out []string
	for _, e := range d.Earlier {
		out = append(out, fmt.Sprintf("%s until %s, not given to clients", named(e.CellName, string(e.Cell)), at(e.Until, now)))
	}
	return strings.Join(out, "; ")
}

// deviceState is how a device stands, where that is worse than its state.
func deviceState(d admin.DeviceView) string {
	switch d.Standing {
	case mesh.StandingExpired, mesh.StandingExhausted:
		return string(d.Standing)
	case mesh.StandingSuspended:
		if d.State == mesh.DeviceActive {
			return "suspended" // with its member
		}
	case mesh.StandingOK, mesh.StandingGone:
	}
	return string(d.State)
}

// trafficOf is how much of its traffic a device has used.
func trafficOf(d admin.DeviceView, now time.Time) string {
	if d.Limits.Traffic == 0 {
		return "unlimited"
	}
	used := size(d.Counted) + " of " + size(d.Limits.Traffic)
	if d.Reset.IsZero() {
		return used
	}
	return used + " since " + at(d.Reset, now)
}

func limitOf(n int64, shown string) string {
	if n == 0 {
		return "unlimited"
	}
	return shown
}

// named is "name (id)", or what there is of the two.
func named(name, id string) string {
	if name == "" || id == "" {
		return name + id
	}
	return name + " (" + id + ")"
}

func newAdminDevice(a *adminCLI) *cobra.Command {
	n := deviceNoun()
	state := func(d deed, to mesh.DeviceState) *cobra.Command {
		return newDeed(a, n, d, admin.DeviceSet, func(ref string) admin.DeviceSetRequest {
			return admin.DeviceSetRequest{Ref: ref, State: &to}
		})
	}
	c := group("device", "Clients of members",
		newDeviceAdd(a, n),
		newDeviceList(a, n),
		newShow(a, n, admin.DeviceGet),
		newDeviceSet(a, n),
		newDeviceLink(a, n),
		newDeviceRotate(a, n),
		newDeed(a, n, deed{use: "reset-traffic", short: "Count a device's traffic anew", done: "counts its traffic anew"}, admin.DeviceResetTraffic,
			func(ref string) admin.Ref { return admin.Ref{Ref: ref} }),
		state(deed{use: "suspend", short: "Stop serving a device until resumed", done: "suspended"}, mesh.DeviceSuspended),
		state(deed{use: "resume", short: "Serve a suspended device again", done: "resumed"}, mesh.DeviceActive),
		newRevoke(a, n, admin.DeviceRevoke, "Its open connections are cut; this cannot be undone."),
		newRemove(a, n, admin.DeviceRemove, "Its record is deleted."),
	)
	c.Long = "Clients of members. A device is named by its id, by MEMBER/NAME, or by NAME alone when\nonly one member has such a device."
	return c
}

func newDeviceList(a *adminCLI, n noun[admin.DeviceView]) *cobra.Command {
	var member, cell string
	c := newList(a, n, admin.DeviceList, 0, func(p admin.Page) (admin.DeviceListRequest, error) {
		return admin.DeviceListRequest{Page: p, Member: member, Cell: cell}, nil
	})
	c.Flags().StringVar(&member, "member", "", "only this member's")
	c.Flags().StringVar(&cell, "cell", "", "only those of this cell")
	completeFlag(a, c, "member", memberNoun().refs)
	completeFlag(a, c, "cell", cellNoun().refs)
	return c
}
