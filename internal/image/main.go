// Command image builds the container image of meshctl for the entry layer on
// Kubernetes: FROM scratch, one static binary, no root, and the same bytes for the
// same source. It needs no Docker: `make image`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	dir := flag.String("o", "bin/image", "folder to write; what is in it goes away")
	tag := flag.String("tag", "meshctl:dev", "name of the image")
	list := flag.String("platforms", "linux/amd64,linux/arm64", "what to build for")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	digest, err := run(ctx, ".", *dir, *tag, *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(*tag, digest)
}

// run builds the program of a folder for each platform, and writes the images.
func run(ctx context.Context, pkg, dir, tag, list string) (v1.Hash, error) {
	images := make(map[string]v1.Image)
	var platforms []v1.Platform
	for s := range strings.SplitSeq(list, ",") {
		p, err := v1.ParsePlatform(s)
		if err != nil {
			return v1.Hash{}, err
		}
		binary, err := build(ctx, pkg, *p)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("%s: %w", s, err)
		}
		if images[p.String()], err = newImage(binary, *p); err != nil {
			return v1.Hash{}, fmt.Errorf("%s: %w", s, err)
		}
		platforms = append(platforms, *p)
	}
	return write(dir, tag, images, platforms)
}

// build compiles with the flags of the environment, which `make` sets: no paths of
// this machine, and no C library.
func build(ctx context.Context, pkg string, p v1.Platform) ([]byte, error) {
	dir, err := os.MkdirTemp("", "meshctl-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // a temporary file that stays does no harm
	out := filepath.Join(dir, program)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w -buildid=", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Architecture)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	return os.ReadFile(out)
}
