package main

import (
	"context"
	"io"

	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/internal/paperlab"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// command is the command line. Groups come in the order of their first commands: what one wants
// first stands first.
type command struct {
	Demo   measure.DemoCmd   `cmd:"" group:"try" help:"Measured RPCs between two processes of this machine."`
	Server measure.ServerCmd `cmd:"" group:"try" help:"Serve the echo and bench service until interrupted."`
	Call   measure.CallCmd   `cmd:"" group:"try" help:"Make one RPC and print its response."`
	Ping   measure.PingCmd   `cmd:"" group:"try" help:"One line per RPC, and a summary."`

	Top       topCmd       `cmd:"" group:"watch" help:"Loops, rates, latencies and sessions of it."`
	Trace     traceCmds    `cmd:"" group:"watch" help:"Its packets: where did calls wait?"`
	WatchDemo watchDemoCmd `cmd:"" group:"watch" help:"A server, a load and the web page of top."`
	Decode    decodeCmd    `cmd:"" group:"watch" help:"Packets of a capture, as --pcap makes them."`

	Bench benchCmds     `cmd:"" group:"measure" help:"Latency, rate, bandwidth, many sessions."`
	Sim   paperlab.Cmds `cmd:"" group:"measure" help:"Experiments of the papers in a simulated network."`

	Doctor doctorCmd `cmd:"" group:"set up" help:"What this machine lacks, and how to mend it."`
	Cert   certCmd   `cmd:"" group:"set up" help:"A certificate authority and certificates for a lab."`

	Version kong.VersionFlag `help:"Print which build this is."`
}

// groups are the titles of the groups of commands.
var groups = []kong.Group{
	{Key: "try", Title: "Try it:"},
	{Key: "watch", Title: "Watch a running program:"},
	{Key: "measure", Title: "Measure:"},
	{Key: "set up", Title: "Set up a machine:"},
}

type benchCmds struct {
	Latency   measure.LatencyCmd   `cmd:"" help:"One RPC at a time."`
	Rate      measure.RateCmd      `cmd:"" help:"Small RPCs, many in flight."`
	Bandwidth measure.BandwidthCmd `cmd:"" help:"Large requests or responses."`
	Sessions  measure.SessionsCmd  `cmd:"" help:"The rate with one to many sessions, and the memory of one."`

	Factors cli.Moved `cmd:"" hidden:"" passthrough:"" help:"erpc-bench factors"`
	Waiting cli.Moved `cmd:"" hidden:"" passthrough:"" help:"erpc-bench waiting"`
}

// env is given to a subcommand beside its flags.
type env struct {
	ctx context.Context // ends with Ctrl-C
	in  io.Reader
	out io.Writer // results only
	err io.Writer // progress, logs, errors
}

func main() {
	cli.Main(func(e *cli.Env, args []string) int { return run(e.Ctx, args, e.In, e.Out, e.Err) })
}

// run runs one command line and returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	app := cli.App{Name: "erpc", Description: description, Options: []kong.Option{
		kong.ExplicitGroups(append(groups, measure.Groups...)),
		kong.Vars{"version": thisBuild()}, measure.Vars, paperlab.Vars}}
	var c command
	return app.Run(&cli.Env{Ctx: ctx, In: in, Out: out, Err: errOut}, &c, args,
		func(e *cli.Env, parsed *kong.Context) error {
			return measure.Run(parsed, e, &env{ctx: e.Ctx, in: e.In, out: e.Out, err: e.Err})
		})
}

const description = `Fast RPCs over datagrams: try "erpc demo", then "erpc bench rate --raw".`
