package main

import (
	"time"

	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// command is the command line.
type command struct {
	Up   upCmd   `cmd:"" help:"Servers, etcd and a load, until interrupted; commands on standard input."`
	Demo demoCmd `cmd:"" help:"Servers that are killed, drained, added and stopped under load, and etcd away."`
	Bars barsCmd `cmd:"" help:"What clients see of deaths, of etcd's absence, rolling restarts and lost zones, beside bars."`
	Node nodeCmd `cmd:"" hidden:"" help:"One server, registered in etcd."`
}

// flags are those of a cluster.
type flags struct {
	Nodes int     `default:"5" help:"Servers at first; default ${default}." placeholder:"N"`
	Zones int     `default:"2" help:"Zones, from a on, which the servers have in turn; the client is in a. Default ${default}." placeholder:"N"`
	Rate  float64 `default:"20000" help:"Calls per second; default ${default}." placeholder:"N"`
	TTL   int     `default:"5" name:"ttl" help:"Seconds that a lease lasts; default ${default}." placeholder:"N"`
}

// check says what cannot be meant.
func (f *flags) check() error {
	if f.Nodes < 1 || f.Nodes > 100 || f.Zones < 1 || f.Zones > 26 || f.TTL < 2 || f.TTL > 60 ||
		!(f.Rate > 0 && f.Rate <= 1e6) {
		return cli.Usagef("--nodes %d, --zones %d, --ttl %d, --rate %v: want 1 to 100, 1 to 26, 2 to "+
			"60, and at most a million", f.Nodes, f.Zones, f.TTL, f.Rate)
	}
	return nil
}

func (f *flags) ttl() time.Duration { return time.Duration(f.TTL) * time.Second }

func main() { cli.Main(run) }

// run runs one command line and returns the exit status.
func run(e *cli.Env, args []string) int {
	app := cli.App{Name: "erpc-cluster",
		Description: `Servers of one service on etcd: try "erpc-cluster demo".`}
	var c command
	return app.Run(e, &c, args, func(e *cli.Env, parsed *kong.Context) error { return parsed.Run(e) })
}
