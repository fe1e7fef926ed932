package main

import (
	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// command is the command line. The benches start this program as their server process.
type command struct {
	Factors factorsCmd `cmd:"" help:"The rate with each optimisation switched off in turn."`
	Waiting waitingCmd `cmd:"" help:"Servers that spin, sleep, or do both: RR-Compound."`

	Server measure.ServerCmd `cmd:"" hidden:""`
}

func main() { cli.Main(run) }

// run runs one command line and returns the exit status.
func run(e *cli.Env, args []string) int {
	app := cli.App{Name: "erpc-bench", Description: `Comparisons: try "erpc-bench factors".`,
		Options: []kong.Option{kong.ExplicitGroups(measure.Groups), measure.Vars}}
	var c command
	return app.Run(e, &c, args, func(e *cli.Env, parsed *kong.Context) error {
		return measure.Run(parsed, e)
	})
}
