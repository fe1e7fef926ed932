package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
)

// env holds what a command gets from outside.
type env struct {
	ctx      context.Context
	in       io.Reader
	out, err io.Writer
}

// command is a subcommand. It declares its flags in set and returns what to do once
// they are parsed.
type command struct {
	name, does string
	hidden     bool // for child processes
	setup      func(set *flag.FlagSet) func(env) error
}

func commands() []command {
	return []command{
		{name: "compare", does: "all peers and this library in turns, and a table of them",
			setup: setupCompare},
		{name: "run", does: "one peer, once", setup: setupRun},
		{name: "bench", does: "the figures of make bench: bin/erpc, the peers, the Go benchmarks",
			setup: setupBench},
		{name: "goroutines", setup: setupGoroutines,
			does: "calls from goroutines in the situations that programs meet, and their bars"},
		{name: "large", setup: setupLarge, does: "large messages and lost packets, over loopback and " +
			"veth pairs (needs root), and their bars"},
		{name: "stubs", setup: setupStubs, does: "grpcerpc beside grpc-go: calls, streams, TLS, large " +
			"messages beside small ones, idle streams, loss, and their bars"},
		{name: "raw", does: "udp and raw Ethernet across a veth pair, beside their raw transports; " +
			"needs root", setup: setupRaw},
		{name: "table", does: "a Markdown table of the JSON files that bench wrote", setup: setupTable},
		{name: "plot", does: "SVG plots of them", setup: setupPlot},
		{name: "serve", hidden: true, setup: setupServe},
		{name: "client", hidden: true, setup: setupClient},
		{name: "idle-serve", hidden: true, setup: setupIdleServe},
		{name: "idle-client", hidden: true, setup: setupIdleClient},
		{name: "kill-client", hidden: true, setup: setupKillClient},
		{name: "stubs-serve", hidden: true, setup: setupStubsServe},
		{name: "stubs-client", hidden: true, setup: setupStubsClient},
		{name: "busy", hidden: true, setup: setupBusy},
	}
}

// usageError is wrong usage, told to people in one line.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(env{ctx: ctx, in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// run does what the arguments say and returns the exit status: 0 done, 1 failed, 2
// wrong usage.
func run(e env, args []string) int {
	if len(args) == 0 {
		fmt.Fprint(e.err, usage())
		return 2
	}
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		fmt.Fprint(e.out, usage())
		return 0
	}
	list := commands()
	i := slices.IndexFunc(list, func(c command) bool { return c.name == args[0] })
	if i < 0 {
		fmt.Fprintf(e.err, "peers: there is no command %q; see peers help\n", args[0])
		return 2
	}
	set := flag.NewFlagSet("peers "+args[0], flag.ContinueOnError)
	set.SetOutput(e.err)
	do := list[i].setup(set)
	switch err := set.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // flag has told it
	case set.NArg() > 0:
		fmt.Fprintf(e.err, "peers %s: unexpected argument %q\n", args[0], set.Arg(0))
		return 2
	}
	err := do(e)
	var wrong usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintf(e.err, "peers %s: %v\n", args[0], err)
		return 2
	}
	fmt.Fprintf(e.err, "peers %s: %v\n", args[0], err)
	return 1
}

func usage() string {
	var b strings.Builder
	b.WriteString("usage: peers COMMAND [FLAGS]; peers COMMAND --help lists the flags\n\n")
	for _, c := range commands() {
		if !c.hidden {
			fmt.Fprintf(&b, "  %-10s %s\n", c.name, c.does)
		}
	}
	return b.String()
}
