package dev

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

func copyLog(w io.Writer, p Part) error {
	f, err := os.Open(p.Log)
	if err != nil {
		return fmt.Errorf("dev: logs: %w", err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			if _, werr := fmt.Fprintf(w, "%-8s %s", p.Name, line); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("dev: logs: %w", err)
		}
	}
}
