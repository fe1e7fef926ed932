package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// command is the command line.
type command struct {
	Demo   demoCmd   `cmd:"" help:"Run a server process and a client on this machine, and print measured RPCs."`
	Server serverCmd `cmd:"" help:"Serve the echo and bench service until interrupted."`
	Ping   pingCmd   `cmd:"" help:"One line per RPC, and a summary."`
	Bench  benchCmds `cmd:"" help:"Measure latency, rate, bandwidth, or what each optimisation brings."`
	Sim    simCmds   `cmd:"" help:"The cluster experiments of the eRPC paper, in a simulated network."`
	Decode decodeCmd `cmd:"" help:"Print the packets of a capture, made by --pcap or tcpdump."`
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

// usageError is a mistake in the command line: exit status 2.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// helped is panicked with by kong's exit hook after --help or --version has been printed.
type helped int

// run runs one command line and returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) (status int) {
	defer func() {
		if p := recover(); p != nil {
			h, ok := p.(helped)
			if !ok {
				panic(p)
			}
			status = int(h)
		}
	}()
	var c command
	parser, err := kong.New(&c, kong.Name("erpc"), kong.Description(description), kong.Writers(out, errOut),
		kong.Exit(func(code int) { panic(helped(code)) }), kong.Vars{"version": thisBuild()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}))
	if err != nil {
		return fail(errOut, err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(errOut, "erpc: %s; see erpc --help\n", oneLine(err))
		return exitUsage
	}
	e := &env{ctx: ctx, in: in, out: out, err: errOut, usedBy: parsed.Command()}
	err = parsed.Run(e)
	for _, end := range e.atEnd {
		err = errors.Join(err, end())
	}
	if err != nil {
		return fail(errOut, err)
	}
	return exitDone
}

// fail prints one line and returns the exit status that err stands for.
func fail(w io.Writer, err error) int {
	fmt.Fprintf(w, "erpc: %s\n", oneLine(err))
	var u usageError
	if errors.As(err, &u) {
		return exitUsage
	}
	return exitFailed
}

func oneLine(err error) string {
	return strings.TrimPrefix(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "), "erpc: ")
}

const description = `Fast RPCs over datagrams: try "erpc demo", then "erpc bench rate --raw".`
