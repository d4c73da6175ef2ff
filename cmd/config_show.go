package cmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newConfig() *cobra.Command {
	return group("config", "Look at the configuration of a role", newConfigShow())
}

func newConfigShow() *cobra.Command {
	var name, file string
	var showOrigin bool
	var format outputFormat
	c := &cobra.Command{
		Use:   "show --role ROLE",
		Short: "Print the configuration that applies, and where each value comes from",
		Args:  takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := newRole(name)
			if err != nil {
				return err
			}
			all, err := loadConfigFrom(nil, name, file, r)
			if err != nil {
				return err
			}
			if format.structured() {
				return format.print(c.OutOrStdout(), all)
			}
			columns := []column[origin]{
				text("KEY", func(o origin) string { return o.Key }),
				text("VALUE", func(o origin) string { return shown(o.Value) }),
			}
			if showOrigin {
				columns = append(columns, text("ORIGIN", func(o origin) string { return o.Origin }))
			}
			return printTable(c.OutOrStdout(), columns, all, time.Now(), true)
		},
	}
	c.Flags().StringVar(&name, "role", "", "mgmt, core or entry")
	c.Flags().StringVar(&file, "config", "", "configuration file (default /etc/meshctl/ROLE.yaml when it exists)")
	c.Flags().BoolVar(&showOrigin, "origin", false, "say where each value comes from")
	must(c.MarkFlagRequired("role"))
	complete(c, "role", roleNames()...)
	format.flag(c)
	return c
}

func shown(v any) string {
	switch t := v.(type) {
	case []string:
		return strings.Join(t, ",")
	case string:
		return t
	}
	return fmt.Sprint(v)
}
