package main

import (
	"context"
	"errors"
	"io"

	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/internal/cli"
)

// command is the command line.
type command struct {
	Demo   demoCmd   `cmd:"" help:"Run a server process and a client on this machine, and print measured RPCs."`
	Server serverCmd `cmd:"" help:"Serve the echo and bench service until interrupted."`
	Ping   pingCmd   `cmd:"" help:"One line per RPC, and a summary."`
	Bench  benchCmds `cmd:"" help:"Measure latency, rate, bandwidth, or what each optimisation brings."`
	Sim    simCmds   `cmd:"" help:"The cluster experiments of the eRPC paper, in a simulated network."`
	Decode decodeCmd `cmd:"" help:"Print the packets of a capture, made by --pcap or tcpdump."`
	Cert   certCmd   `cmd:"" help:"Make a certificate authority and certificates for a lab."`
	Doctor doctorCmd `cmd:"" help:"What this machine offers and lacks, and how to mend it."`

	Version kong.VersionFlag `help:"Print which build this is."`
}

type benchCmds struct {
	Latency   latencyCmd   `cmd:"" help:"One RPC at a time."`
	Rate      rateCmd      `cmd:"" help:"Small RPCs, many in flight."`
	Bandwidth bandwidthCmd `cmd:"" help:"Large requests or responses."`
	Sessions  sessionsCmd  `cmd:"" help:"The rate with one to many sessions, and the memory of one."`
	Factors   factorsCmd   `cmd:"" help:"The rate with each optimisation switched off in turn."`
}

// env is what a subcommand gets beside its flags.
type env struct {
	ctx    context.Context // ends with Ctrl-C
	in     io.Reader
	out    io.Writer // results only
	err    io.Writer // progress, logs, errors
	usedBy string    // the subcommand, for messages

	atEnd     []func() error // run when the subcommand has ended, however it did
	crowdTold bool           // that loops outnumber cores
}

func main() {
	cli.Main(func(e *cli.Env, args []string) int { return run(e.Ctx, args, e.In, e.Out, e.Err) })
}

// run runs one command line and returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	app := cli.App{Name: "erpc", Description: description,
		Options: []kong.Option{kong.Vars{"version": thisBuild()}}}
	var c command
	return app.Run(&cli.Env{Ctx: ctx, In: in, Out: out, Err: errOut}, &c, args,
		func(parsed *kong.Context) error {
			e := &env{ctx: ctx, in: in, out: out, err: errOut, usedBy: parsed.Command()}
			err := parsed.Run(e)
			for _, end := range e.atEnd {
				err = errors.Join(err, end())
			}
			return err
		})
}

const description = `Fast RPCs over datagrams: try "erpc demo", then "erpc bench rate --raw".`
