package main

import (
	"context"
	"encoding/json"
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
	Demo   demoCmd   `cmd:"" help:"The paper's workload against a server process."`
	Serve  serveCmd  `cmd:"" help:"Serve an index until interrupted."`
	Load   loadCmd   `cmd:"" help:"Fill servers with numbered keys."`
	Bench  benchCmd  `cmd:"" help:"Measure GETs, with scans beside them, of keys that load has put."`
	Get    getCmd    `cmd:"" help:"Print the value of a key."`
	Put    putCmd    `cmd:"" help:"Store a value, a number."`
	Delete deleteCmd `cmd:"" help:"Remove a key."`
	Scan   scanCmd   `cmd:"" help:"Print keys and values in order."`
}

// env holds the context and the outputs of a subcommand.
type env struct {
	ctx context.Context // ends with Ctrl-C
	in  io.Reader
	out io.Writer // results only
	err io.Writer // progress, errors
}

// usageError is a mistake in the command line: exit status 2.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(&env{ctx, os.Stdin, os.Stdout, os.Stderr}, os.Args[1:])
	stop()
	os.Exit(status)
}

// help holds the longer texts of flags.
var help = kong.Vars{
	"transport_help": "Transport: udp, the default; shm on one machine; " +
		"auto, shm to this machine and udp elsewhere.",
	"servers_help": "Servers, and the first key of each but the first, " +
		"as ADDR,KEY=ADDR,KEY=ADDR; default 127.0.0.1:31860.",
	"timeout_help":     "How long to wait for a server; default 5s.",
	"scan_help":        "Where scans run: workers, or loop, the event loop; default workers.",
	"snapshot_help":    "Start from this file, and write it at the end; without it all is in memory.",
	"outstanding_help": "Requests under way per client, closed loop; default 2.",
	"plot_help":        "Draw the distribution of GETs: FILE.svg, or FILE.csv for its points.",
	"rate_help":        "Open loop: requests per second, at random times.",
}

// helped is panicked with by kong's exit hook after --help has been printed.
type helped int

// run runs one command line and returns the exit status.
func run(e *env, args []string) (status int) {
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
	parser, err := kong.New(&c, kong.Name("erpc-index"),
		kong.Description(`An ordered index over erpc: try "erpc-index demo".`),
		kong.Writers(e.out, e.err), help, kong.Exit(func(code int) { panic(helped(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}))
	if err != nil {
		return e.fail(err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(e.err, "erpc-index: %s; see erpc-index --help\n", oneLine(err))
		return exitUsage
	}
	if err := parsed.Run(e); err != nil {
		return e.fail(err)
	}
	return exitDone
}

// fail prints one line and returns the exit status that err stands for.
func (e *env) fail(err error) int {
	fmt.Fprintf(e.err, "erpc-index: %s\n", oneLine(err))
	var u usageError
	if errors.As(err, &u) {
		return exitUsage
	}
	return exitFailed
}

func oneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
}

// print prints a result: v as JSON, or text.
func (e *env) print(asJSON bool, v any, text string, args ...any) error {
	if asJSON {
		return json.NewEncoder(e.out).Encode(v)
	}
	_, err := fmt.Fprintf(e.out, text+"\n", args...)
	return err
}
