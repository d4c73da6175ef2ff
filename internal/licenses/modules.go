package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is one module that the binary links packages of.
type module struct {
	path, version string
	dir           string
	licences      []document // of the module, and of folders in it that have their own
	notices       []document
}

// document is one file, named by its path in the module.
type document struct{ name, text string }

// platform is what the list is made for, whatever machine makes it.
var platform = []string{"GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0"}

// listed is what `go list` says of a package.
type listed struct {
	Dir    string
	Module *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// linked returns the modules whose packages the binary in the current folder
// links, in order of their paths.
func linked(ctx context.Context) ([]*module, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Dir,Module", ".")
	cmd.Env = append(os.Environ(), platform...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &errs)
	}
	found := make(map[string]*module)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.Module == nil || p.Module.Main {
			continue // the standard library, or ours
		}
		if p.Module.Dir == "" {
			return nil, fmt.Errorf("%s is not in the module cache; hint: go mod download", p.Module.Path)
		}
		m := found[p.Module.Path]
		if m == nil {
			m = &module{path: p.Module.Path, version: p.Module.Version, dir: p.Module.Dir}
			found[m.path] = m
		}
		if err := m.read(p.Dir); err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *module) int { return strings.Compare(a.path, b.path) }), nil
}

var (
	licenceName = regexp.MustCompile(`(?i)^(un)?licen[cs]e([.-].*)?$|^copying([.-].*)?$`)
	noticeName  = regexp.MustCompile(`(?i)^notice([.-].*)?$`)
	sourceName  = regexp.MustCompile(`\.(go|s|c|h|sh|py)$`)
)

// read takes the documents of a package: those in its folder and in those above
// it, up to the module's own.
func (m *module) read(dir string) error {
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := e.Name()
			if e.IsDir() || sourceName.MatchString(name) {
				continue
			}
			if err := m.take(filepath.Join(dir, name), name); err != nil {
				return err
			}
		}
		if dir == m.dir {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

func (m *module) take(path, name string) error {
	list := &m.licences
	switch {
	case noticeName.MatchString(name):
		list = &m.notices
	case !licenceName.MatchString(name):
		return nil
	}
	rel, err := filepath.Rel(m.dir, path)
	if err != nil || slices.ContainsFunc(*list, func(d document) bool { return d.name == rel }) {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	*list = append(*list, document{rel, strings.ReplaceAll(string(text), "\r\n", "\n")})
	slices.SortFunc(*list, func(a, b document) int { return strings.Compare(a.name, b.name) })
	return nil
}
