package cli

import "github.com/alecthomas/kong"

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
	return Usagef("%s has left this command: it is %s now, a command of the module labs", node.Name,
		node.Help)
}
