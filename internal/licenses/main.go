// Command licenses lists the licences of everything that is linked into the
// binary, and refuses what may not be: copyleft that reaches beyond its own
// files, and whatever it does not know. It reads the module cache and nothing
// from the network.
//
//	go run ./internal/licenses [-check] FILE
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	check := flag.Bool("check", false, "fail when FILE is not what would be written")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: licenses [-check] FILE")
		os.Exit(2)
	}
	if err := run(context.Background(), flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string, check bool) error {
	modules, err := linked(ctx)
	if err != nil {
		return err
	}
	if err := judge(modules); err != nil {
		return err
	}
	want := render(modules)
	if !check {
		return os.WriteFile(file, want, 0o644)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return errors.New(file + " is not current; hint: make licenses")
	}
	return nil
}
