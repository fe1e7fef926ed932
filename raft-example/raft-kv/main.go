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
	Server  serverCmd  `cmd:"" help:"Run one replica until interrupted."`
	Cluster clusterCmd `cmd:"" help:"Run replicas on loopback, each in a process of its own, until interrupted."`
	Put     putCmd     `cmd:"" help:"Set a key."`
	Get     getCmd     `cmd:"" help:"Print the value of a key."`
	Delete  deleteCmd  `cmd:"" help:"Remove a key."`
	CAS     casCmd     `cmd:"" name:"cas" help:"Set a key if it has a certain value."`
	Status  statusCmd  `cmd:"" help:"What each replica knows of itself and the cluster."`
	Member  memberCmd  `cmd:"" help:"Add or remove a replica, or hand over leadership."`
	Members membersCmd `cmd:"" help:"Change any members at once."`
	Bench   benchCmd   `cmd:"" help:"Latency of replicated PUTs beside that of plain RPCs."`
	Demo    demoCmd    `cmd:"" help:"Three replicas; the leader is killed under load; nothing acknowledged is lost."`
}

// env is what a subcommand gets beside its flags.
type env struct {
	ctx context.Context // ends with Ctrl-C
	in  io.Reader
	out io.Writer // results only
	err io.Writer // progress, logs, errors
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
	parser, err := kong.New(&c, kong.Name("raft-kv"), kong.Description(`A replicated key-value store: try "raft-kv demo".`),
		kong.Writers(e.out, e.err), kong.Exit(func(code int) { panic(helped(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}))
	if err != nil {
		return e.fail(err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(e.err, "raft-kv: %s; see raft-kv --help\n", oneLine(err))
		return exitUsage
	}
	if err := parsed.Run(e); err != nil {
		return e.fail(err)
	}
	return exitDone
}

// fail prints one line and returns the exit status that err stands for.
func (e *env) fail(err error) int {
	fmt.Fprintf(e.err, "raft-kv: %s\n", oneLine(err))
	var u usageError
	if errors.As(err, &u) {
		return exitUsage
	}
	return exitFailed
}

func oneLine(err error) string { return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ") }

// print prints a result: v as JSON, or text.
func (e *env) print(asJSON bool, v any, text string, args ...any) error {
	if asJSON {
		return json.NewEncoder(e.out).Encode(v)
	}
	_, err := fmt.Fprintf(e.out, text+"\n", args...)
	return err
}
