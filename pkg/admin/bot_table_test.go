package admin

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// TestTheBotMayCallTheseAlone states a second time, by hand, what the bot may call.
func TestTheBotMayCallTheseAlone(t *testing.T) {
	want := map[mesh.BotStanding]string{
		mesh.BotAnyone: "BotExpect BotJoin! BotLanguage BotLink! BotUnlink! BotWho",
		mesh.BotMember: "BotDeviceAdd! BotDeviceLink!* BotDeviceRotate!* BotHelp! BotOwn",
		mesh.BotOperator: "AlertAck! AlertGet AlertList AlertMute! AlertMutes AlertRules AlertUnmute! " +
			"BackupGet BackupRun! BackupVerify! BotAnswer! BotBroadcast! BotCodeCreate!* BotDecide! BotGuests BotShown! " +
			"CellForecastOf CellGet CellList CellSet! CoreGet CoreList CoreRevoke! CoreSet! " +
			"DeviceAdd! DeviceGet DeviceList DeviceResetTraffic! DeviceRevoke! DeviceRotate! DeviceSet! DeviceSubscribe!* " +
			"EntryGet EntryList EntryRevoke! EventList MemberAdd! MemberGet MemberList MemberSet! " +
			"ServerStatusGet StatusGet SubStatusGet TokenCreate!* TokenGet TokenList TokenRevoke!",
	}
	got := map[mesh.BotStanding][]string{}
	for path, r := range BotTable() {
		name := strings.TrimPrefix(path, "/"+Service+"/")
		if r.Changes {
			name += "!"
		}
		if r.Secret {
			name += "*"
		}
		got[r.Standing] = append(got[r.Standing], name)
		need, listed := Table()[path]
		if listed && need != r.Need || r.Need == mesh.AdminOwner || r.Standing == mesh.BotOperator && r.Need == "" {
			t.Errorf("%s needs %q here, and %q elsewhere", name, r.Need, need)
		}
	}
	for standing, names := range want {
		slices.Sort(got[standing])
		if g := strings.Join(got[standing], " "); g != names {
			t.Errorf("%s may call\n%s, want\n%s", standing, g, names)
		}
	}
	if len(got) != len(want) {
		t.Errorf("standings are %v", got)
	}
}

func TestAnOwnerIsAnOperatorHere(t *testing.T) {
	for role, want := range map[mesh.AdminRole]mesh.AdminRole{
		mesh.AdminOwner: mesh.AdminOperator, mesh.AdminOperator: mesh.AdminOperator, mesh.AdminAuditor: mesh.AdminAuditor, "": "", "god": "god",
	} {
		p := BotPerson{Number: 1, Admin: mesh.Administrator{ID: "admin-a", Role: role}}
		if got := p.Role(); got != want {
			t.Errorf("%q has %q here, want %q", role, got, want)
		}
		_, err := p.As("X", BotRule{Standing: mesh.BotOperator, Need: mesh.AdminOwner})
		if mesh.Kind(err) != mesh.ErrDenied {
			t.Errorf("%q may do what owners do: %v", role, err)
		}
	}
	both := BotPerson{Number: 1, Admin: mesh.Administrator{ID: "admin-a", Role: mesh.AdminOwner}, Member: mesh.Member{ID: "member-a"}}
	for standing, want := range map[mesh.BotStanding]mesh.Actor{mesh.BotOperator: "admin:admin-a", mesh.BotMember: "member:member-a", mesh.BotAnyone: "admin:admin-a"} {
		if got, err := both.As("X", BotRule{Standing: standing, Need: mesh.AdminOperator}); got != want || err != nil {
			t.Errorf("with %s the actor is %q, %v", standing, got, err)
		}
	}
}
