package cmd

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/relay"
)

// buildVersion is what `meshctl version -o json` prints.
type buildVersion struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitzero"`
	Date     string `json:"date,omitzero"`
	Modified bool   `json:"modified,omitzero"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Relay    string `json:"relay"` // newest relay protocol
}

// version reads the build information that the Go tool embeds.
func version() buildVersion {
	v := buildVersion{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Relay: relay.ALPN}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Date = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func newVersion() *cobra.Command {
	var format outputFormat
	c := &cobra.Command{
		Use:   "version",
		Short: "Print what this binary was built from",
		Args:  takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			v := version()
			if format.structured() {
				return format.print(c.OutOrStdout(), v)
			}
			return say(c, "meshctl %s (%s, %s)\n", v.Version, v.Go, v.Platform)
		},
	}
	format.flag(c)
	return c
}
