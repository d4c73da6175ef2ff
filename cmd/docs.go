package cmd

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// newDocs writes the CLI reference; it is for developers and hidden.
func newDocs() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:    "docs DIR",
		Short:  "Generate the CLI reference",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !check {
				return writeDocs(c.Root(), args[0])
			}
			return checkDocs(c.Root(), args[0])
		},
	}
	c.Flags().BoolVar(&check, "check", false, "fail when DIR is not what would be generated")
	return c
}

// writeDocs generates one page a command. The folder is the generator's alone:
// pages of commands that are gone are removed.
func writeDocs(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("docs: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return fmt.Errorf("docs: %w", err)
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			return fmt.Errorf("docs: %w", err)
		}
	}
	disableAutoGenTag(root)
	if err := doc.GenMarkdownTree(root, dir); err != nil {
		return fmt.Errorf("docs: %w", err)
	}
	return nil
}

// disableAutoGenTag drops the date, which would change every page every day.
func disableAutoGenTag(c *cobra.Command) {
	c.DisableAutoGenTag = true
	for _, sub := range c.Commands() {
		disableAutoGenTag(sub)
	}
}

func checkDocs(root *cobra.Command, dir string) error {
	fresh, err := os.MkdirTemp("", "meshctl-docs-")
	if err != nil {
		return fmt.Errorf("docs: %w", err)
	}
	defer os.RemoveAll(fresh)
	if err := writeDocs(root, fresh); err != nil {
		return err
	}
	got, err := readPages(dir)
	if err != nil {
		return err
	}
	want, err := readPages(fresh)
	if err != nil {
		return err
	}
	var stale []string
	for name := range union(got, want) {
		if !bytes.Equal(got[name], want[name]) {
			stale = append(stale, name)
		}
	}
	if len(stale) > 0 {
		slices.Sort(stale)
		return mesh.WithHint(fmt.Errorf("docs: %s is not current: %s", dir, strings.Join(stale, ", ")), "make docs")
	}
	return nil
}

func union(a, b map[string][]byte) map[string]bool {
	out := make(map[string]bool)
	for _, m := range []map[string][]byte{a, b} {
		for k := range m {
			out[k] = true
		}
	}
	return out
}

func readPages(dir string) (map[string][]byte, error) {
	out := make(map[string][]byte)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		out[path], err = fs.ReadFile(os.DirFS(dir), path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("docs: %w", err)
	}
	return out, nil
}
