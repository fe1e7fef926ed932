package cli

import (
	"strings"

	"github.com/alecthomas/kong"
)

// Moved is a subcommand of the release before, which is part of another command now. It takes any
// arguments; its help names the other one.
//
//	Factors cli.Moved `cmd:"" hidden:"" passthrough:"" help:"erpc-bench factors"`
type Moved struct {
	Args []string `arg:"" optional:""`
}

// Run says where it is.
func (Moved) Run(parsed *kong.Context) error {
	node := parsed.Selected()
	program, _, _ := strings.Cut(node.Help, " ")
	return Usagef("%s has left this command: it is %s now, and make bin/%s builds that", node.Name,
		node.Help, program)
}
