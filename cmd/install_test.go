package cmd

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshctl/meshctl/deploy/systemd"
	"github.com/meshctl/meshctl/pkg/entry"
)

func TestInstallScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Files:         []string{"testdata/script/install.txtar"},
		UpdateScripts: updateScripts(),
		Cmds:          map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

func TestUnitsAllowTheDescriptorsThatDoctorWants(t *testing.T) {
	mgmt, core := newMgmtConfig(), newCoreConfig()
	for role, need := range map[string]uint64{
		"mgmt":  uint64(mgmt.Rates.Open) + 1024,
		"core":  2*uint64(core.Connections) + 512,
		"entry": entry.FilesFor(newEntryConfig().Limits.Connections),
	} {
		text, err := systemd.Unit(role, "/usr/bin/meshctl")
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^LimitNOFILE=(\d+)$`).FindSubmatch(text)
		if found == nil {
			t.Errorf("the unit of %s has no limit", role)
			continue
		}
		if limit, err := strconv.ParseUint(string(found[1]), 10, 64); err != nil || limit < need {
			t.Errorf("the unit of %s allows %d descriptors, %d are needed (%v)", role, limit, need, err)
		}
	}
}
