package main

import (
	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/kit/cli"
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

	Plots   plotsCmd   `cmd:"" help:"Draw throughput against value size, and latency against load."`
	Designs designsCmd `cmd:"" help:"Measure all designs in turns over RDMA devices."`
}

// help holds the longer texts of flags.
var help = kong.Vars{
	"transport_help": "Transport: udp, the default; shm on one machine; " +
		"auto, shm to this machine and udp elsewhere; ud, InfiniBand and RoCE.",
	"iface_help": "RDMA device, such as mlx5_0, for transport ud and designs but erpc; " +
		"default: by address.",
	"designs_addr_help": "Where the servers listen: an address of an RDMA device, port 0.",
	"window_help":       "All designs but erpc: requests of a client under way; default 16.",
	"slot_help":         "All designs but erpc: bytes of the largest message; default 1024.",
	"design_help": "Design: erpc, the default; over queue pairs herd (requests written over UC, " +
		"answers over UD), send (UD both ways), write (RC both ways).",
	"servers_help": "Servers, the address of any partition of each, with commas; " +
		"default 127.0.0.1:31870.",
	"timeout_help": "How long to wait for a server; default 5s.",
	"addr_help":    "Where the first partition listens; the others on the following ports.",
	"memory_help":  "Memory in MiB, of all partitions together; default 256.",
	"item_help": "Bytes of key and value that most items have, for the size of the index; " +
		"default 48. A store of items of 1000 holds a seventh more if it is told so.",
	"move_help":        "Cache: part of the items that reading keeps, oldest first; 1 is LRU.",
	"memcached_help":   "Serve memcached's clients here too: a TCP address, or the path of a socket.",
	"outstanding_help": "Requests under way, closed loop; default 64.",
	"rate_help":        "Open loop: requests per second, at random times.",
	"zipf_help":        "Skew of the keys, 0 to 0.999; 0, the default, is uniform.",
}

func main() { cli.Main(run) }

// run runs one command line and returns the exit status.
func run(e *cli.Env, args []string) int {
	app := cli.App{
		Name: "erpc-kv", Description: `A key-value cache and store over erpc: try "erpc-kv demo".`,
		Options: []kong.Option{help},
	}
	var c command
	return app.Run(e, &c, args, func(e *cli.Env, parsed *kong.Context) error { return parsed.Run(e) })
}
