package cmd

import (
	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/chores"
)

func newMgmtAux() *cobra.Command {
	return &cobra.Command{
		Use:    "aux",
		Short:  "The child process of a management server, which starts it by itself",
		Hidden: true,
		Args:   takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			conn, err := chores.Inherited()
			if err != nil {
				return usagef("`meshctl mgmt aux` is the child process of a management server, which starts it by itself").
					hint("start the server: meshctl mgmt serve")
			}
			return chores.Work(c.Context(), conn)
		},
	}
}
