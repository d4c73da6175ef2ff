package cmd

import (
	"os"
	"path/filepath"
	"testing"
)

// On the machine of a server that does not run, nobody has to log in: the server
// has to be started.
func TestWhereAServerIsAtHome(t *testing.T) {
	dir := t.TempDir()
	if !holdsServer(dir) {
		t.Error("a data folder is not seen")
	}
	if holdsServer(filepath.Join(dir, "none")) {
		t.Error("a folder that does not exist is a server's")
	}
	if os.Geteuid() == 0 {
		return // root may look into any folder
	}
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	if holdsServer(dir) {
		t.Error("a folder that this user may not look into is")
	}
}
