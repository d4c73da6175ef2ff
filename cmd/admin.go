package cmd

import (
	"time"

	"github.com/spf13/cobra"
)

// adminConfig is how the command line finds the management server. Login
// writes the file.
type adminConfig struct {
	Socket  string        `key:"socket" help:"unix socket of the server on this machine (default: that of meshctl mgmt serve when it exists)"`
	Server  []string      `key:"server" help:"host:port of management servers to ask instead of those learnt at login"`
	Timeout time.Duration `key:"timeout" help:"give up a request after this time"`
}

// adminCLI is what the commands below admin share.
type adminCLI struct {
	format outputFormat
	yes    bool
}

func newAdmin() *cobra.Command {
	a := &adminCLI{}
	c := group("admin", "Run the network: members, devices, cells, nodes, tokens")
	c.Long = `Every command is a call to a management server, over its unix socket when you are
root on that server, or over the network after "meshctl admin login".

An object is named by its id or by its name. -o json and -o yaml have stable
member names; -o name prints ids alone.`
	for _, s := range settings(&adminConfig{Timeout: defaultAdminTimeout}) {
		settingFlag(c.PersistentFlags(), s)
	}
	a.format.persistentFlag(c)
	c.PersistentFlags().BoolVarP(&a.yes, "yes", "y", false, "do not ask before what cannot be undone")
	c.AddGroup(
		&cobra.Group{ID: "session", Title: "Session:"},
		&cobra.Group{ID: "people", Title: "People and their devices:"},
		&cobra.Group{ID: "network", Title: "Network:"},
		&cobra.Group{ID: "record", Title: "Record:"},
	)
	add(c, "session", newAdminLogin(a), newAdminLogout(a), newAdminStatus(a))
	add(c, "people", newAdminMember(a), newAdminDevice(a), newAdminSub(a), newAdminAdministrator(a), newAdminBot(a))
	add(c, "network", newAdminCell(a), newAdminCore(a), newAdminEntry(a), newAdminKube(a), newAdminToken(a), newAdminMgmt(a), newAdminSecrets(a),
		newAdminRoute(a), newAdminCert(a), newAdminACME(a), newAdminDoctor(a), newAdminSettings(a))
	add(c, "record", newAdminAlert(a), newAdminEvents(a), newAdminAudit(a), newAdminBackup(a))
	return c
}
