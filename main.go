// Command meshctl runs every part of a private access network; the subcommand
// chooses which.
package main

import (
	"os"

	"github.com/meshctl/meshctl/cmd"
)

func main() { os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
