// Package systemd holds the units of the three roles, so that the binary can
// put them in place.
package systemd

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.service
var files embed.FS

// packaged is where the units expect the binary.
const packaged = "/usr/local/bin/meshctl"

// UnitName is the name of a role's unit.
func UnitName(role string) string { return "meshctl-" + role + ".service" }

// UserName is the user that a role runs as.
func UserName(role string) string { return "meshctl-" + role }

// Unit returns the unit of a role that starts the given binary.
func Unit(role, binary string) ([]byte, error) {
	text, err := files.ReadFile(UnitName(role))
	if err != nil {
		return nil, fmt.Errorf("systemd: unit of %s: %w", role, err)
	}
	return []byte(strings.ReplaceAll(string(text), packaged, binary)), nil
}

// Users returns the declaration of a role's user for systemd-sysusers.
func Users(role, home string) []byte {
	return fmt.Appendf(nil, "u %s - \"meshctl %s\" %s\n", UserName(role), role, home)
}
