package main

import (
	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// command is the command line.
type command struct {
	Demo  demoCmd  `cmd:"" help:"All ways of answering in turns, with a server process."`
	Rdma  rdmaCmd  `cmd:"" help:"The same over RDMA adapters, beside HERD and erpc over ud."`
	Serve serveCmd `cmd:"" hidden:"" help:"The server of the demonstration."`
}

func main() { cli.Main(run) }

// run runs one command line and returns the exit status.
func run(e *cli.Env, args []string) int {
	app := cli.App{Name: "erpc-rfp",
		Description: `Remote fetching over shared memory and RDMA: try "erpc-rfp demo".`}
	var c command
	return app.Run(e, &c, args, func(e *cli.Env, parsed *kong.Context) error { return parsed.Run(e) })
}
