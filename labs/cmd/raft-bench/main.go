package main

import (
	"strings"

	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/secure"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// command is the command line.
type command struct {
	Put benchCmd `cmd:"" help:"Latency of replicated PUTs beside that of plain RPCs."`
	Sim simCmd   `cmd:"" help:"The same on virtual cores, for round trips of 2.3 to 20 us."`
}

func main() { cli.Main(run) }

// run runs one command line and returns the exit status.
func run(e *cli.Env, args []string) int {
	app := cli.App{Name: "raft-bench",
		Description: `The replicated store of raft-example, measured: try "raft-bench put".`}
	var c command
	return app.Run(e, &c, args, func(e *cli.Env, parsed *kong.Context) error { return parsed.Run(e) })
}

// netFlags choose the network path.
type netFlags struct {
	Transport string `default:"udp" help:"Transport: udp, the default; shm; auto." placeholder:"NAME"`
	JSON      bool   `name:"json" help:"Print one JSON object."`
	secure.Flags
}

// listen opens an endpoint on this machine. The files of keys are loaded first.
func (f *netFlags) listen(addr string) (transport.Transport, error) {
	if err := f.Load(); err != nil {
		return nil, err
	}
	switch f.Transport {
	case "udp":
		return udp.Listen(addr, udp.Config{})
	case "shm":
		return shm.Listen(strings.TrimPrefix(addr, "shm:"), shm.Config{})
	case "auto":
		return auto.Listen(addr, auto.Config{})
	}
	return nil, cli.Usagef("transport %q is unknown; there are udp, shm and auto", f.Transport)
}
