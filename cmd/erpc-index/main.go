package main

import (
	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/kit/cli"
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
	Sim    simCmd    `cmd:"" help:"The paper's experiment on virtual cores."`
}

// help holds the longer texts of flags.
var help = kong.Vars{
	"transport_help": "Transport: udp, the default; shm on one machine; " +
		"auto, shm to this machine and udp elsewhere.",
	"servers_help": "Servers, and the first key of each but the first, " +
		"as ADDR,KEY=ADDR,KEY=ADDR; default 127.0.0.1:31860.",
	"timeout_help": "How long to wait for a server; default 5s.",
	"scan_help":    "Where scans run: workers, or loop, the event loop; default workers.",
	"snapshot_help": "Start from this file, and write it at the end, with a lock at FILE.lock; " +
		"without it all is in memory.",
	"log_help": "Keep all writes in this folder, by a log and snapshots, and start from it; " +
		"with --snapshot a new folder begins with FILE, which is only read.",
	"fsync_help": "When the log is synced: always, before a write is acknowledged; everysec, once " +
		"a second, which a power failure can lose; no, when the system does; default everysec.",
	"max_memory_help": "Refuse PUTs when the heap is this large, seven eighths of it in use; " +
		"default no limit.",
	"outstanding_help": "Requests under way per client, closed loop; default 2.",
	"plot_help":        "Draw the distribution of GETs: FILE.svg, or FILE.csv for its points.",
	"rate_help":        "Open loop: requests per second, at random times.",
}

func main() { cli.Main(run) }

// run runs one command line and returns the exit status.
func run(e *cli.Env, args []string) int {
	app := cli.App{
		Name: "erpc-index", Description: `An ordered index over erpc: try "erpc-index demo".`,
		Options: []kong.Option{help},
	}
	var c command
	return app.Run(e, &c, args, func(e *cli.Env, parsed *kong.Context) error { return parsed.Run(e) })
}
