package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// The forms of output. Table is for people and may change; the others have
// stable member names.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputYAML  = "yaml"
	outputName  = "name"
)

// outputFormat is the form of output that was asked for. Zero is the table.
type outputFormat string

func (f *outputFormat) String() string {
	if *f == "" {
		return outputTable
	}
	return string(*f)
}

// flag adds --output to c alone, which shows something without an id.
func (f *outputFormat) flag(c *cobra.Command) {
	f.flagIn(c, c.Flags(), outputTable, outputJSON, outputYAML)
}

// persistentFlag adds --output to what is below c.
func (f *outputFormat) persistentFlag(c *cobra.Command) {
	f.flagIn(c, c.PersistentFlags(), outputTable, outputJSON, outputYAML, outputName)
}

func (f *outputFormat) flagIn(c *cobra.Command, fs *pflag.FlagSet, forms ...string) {
	fs.VarP(&formatFlag{f, forms}, "output", "o", "form of the output: "+strings.Join(forms, ", "))
	complete(c, "output", forms...)
}

// formatFlag is --output with the forms that a command knows.
type formatFlag struct {
	*outputFormat
	forms []string
}

// Set checks s, so that a wrong format is a fault of usage.
func (f *formatFlag) Set(s string) error {
	if !slices.Contains(f.forms, s) {
		return fmt.Errorf("want one of %s", strings.Join(f.forms, ", "))
	}
	*f.outputFormat = outputFormat(s)
	return nil
}

// Type is what help shows for the value.
func (f *formatFlag) Type() string { return "format" }

// complete offers fixed words for the value of a flag.
func complete(c *cobra.Command, flag string, words ...string) {
	err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist: a programmer's mistake
	}
}

// structured says whether the output is for a program.
func (f outputFormat) structured() bool { return f == outputJSON || f == outputYAML }

// print writes v as JSON or YAML.
func (f outputFormat) print(w io.Writer, v any) error {
	if f == outputYAML {
		b, err := yaml.Marshal(v)
		if err != nil {
			return fmt.Errorf("output: encode yaml: %w", err)
		}
		_, err = w.Write(b)
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("output: encode json: %w", err)
	}
	return nil
}
