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
	Demo   demoCmd   `cmd:"" help:"The paper's workloads against a server process."`
	Serve  serveCmd  `cmd:"" help:"Serve a cache or a store until interrupted."`
	Load   loadCmd   `cmd:"" help:"Fill servers with numbered keys."`
	Bench  benchCmd  `cmd:"" help:"Measure GETs and PUTs of keys that load has put."`
	Get    getCmd    `cmd:"" help:"Print the value of a key."`
	Put    putCmd    `cmd:"" help:"Store a value."`
	Delete deleteCmd `cmd:"" help:"Remove a key."`
	Stats  statsCmd  `cmd:"" help:"Print the counters of servers."`
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
	"servers_help": "Servers, the address of any partition of each, with commas; " +
		"default 127.0.0.1:31870.",
	"timeout_help":     "How long to wait for a server; default 5s.",
	"addr_help":        "Where the first partition listens; the others on the following ports.",
	"memory_help":      "Memory in MiB, of all partitions together; default 256.",
	"move_help":        "Cache: part of the items that reading keeps, oldest first; 1 is LRU.",
	"outstanding_help": "Requests under way, closed loop; default 64.",
	"rate_help":        "Open loop: requests per second, at random times.",
	"zipf_help":        "Skew of the keys, 0 to 0.999; 0, the default, is uniform.",
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
	parser, err := kong.New(&c, kong.Name("erpc-kv"),
		kong.Description(`A key-value cache and store over erpc: try "erpc-kv demo".`),
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
		fmt.Fprintf(e.err, "erpc-kv: %s; see erpc-kv --help\n", oneLine(err))
		return exitUsage
	}
	if err := parsed.Run(e); err != nil {
		return e.fail(err)
	}
	return exitDone
}

// fail prints one line and returns the exit status that err stands for.
func (e *env) fail(err error) int {
	fmt.Fprintf(e.err, "erpc-kv: %s\n", oneLine(err))
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
