package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/leastheap"
	"github.com/userspace-rpc/erpc/labs/raft/lab"
	"github.com/userspace-rpc/erpc/transport"
)

type benchCmd struct {
	netFlags
	Replicas  int           `default:"3" help:"Replicas, as threads of this process; default ${default}." placeholder:"N"`
	Placement string        `default:"spread" help:"On two cores: together, all replicas in one thread; spread, the leader alone and the followers in the client's thread; default ${default}." placeholder:"HOW"`
	Keys      int           `default:"1000000" help:"Keys, stored before; default ${default}." placeholder:"N"`
	Clients   int           `default:"64" help:"Clients of full load, and of half of it at random times; 0: none; default ${default}." placeholder:"N"`
	Rounds    int           `default:"5" help:"Turns of each kind, whose medians are reported; default ${default}." placeholder:"N"`
	Each      time.Duration `default:"500ms" help:"How long one turn takes, at most 1s; default ${default}." placeholder:"TIME"`
	Pin       bool          `default:"true" negatable:"" help:"Pin the client to the first core and the replicas to the second."`
	GC        int           `name:"gc" default:"400" help:"The garbage collector's GOGC; default ${default}." placeholder:"PERCENT"`
	Heap      int           `name:"gc-heap" default:"64" help:"Heap in MiB for each replica before it is collected at all; at most an eighth of the memory; default ${default}." placeholder:"MIB"`
	Profile   string        `name:"cpuprofile" hidden:"" help:"Write a CPU profile."`
}

// Help is shown by --help.
func (benchCmd) Help() string {
	return `Examples:
  raft-bench put
  raft-bench put --transport shm --placement spread --json`
}

// Run implements the subcommand.
func (c *benchCmd) Run(e *cli.Env) error {
	switch {
	case c.Replicas < 1 || c.Replicas > 9:
		return cli.Usagef("--replicas %d: want 1 to 9", c.Replicas)
	case !slices.Contains([]lab.Placement{lab.Together, lab.Spread}, lab.Placement(c.Placement)):
		return cli.Usagef("--placement %q: want together or spread", c.Placement)
	case c.Keys < 1 || c.Keys > 100_000_000:
		return cli.Usagef("--keys %d: want 1 to 100000000", c.Keys)
	case c.Clients < 0 || c.Clients > 10_000:
		return cli.Usagef("--clients %d: want 0 to 10000", c.Clients)
	case c.Heap < 0:
		return cli.Usagef("--gc-heap %d: must not be negative", c.Heap)
	case c.Rounds < 1 || c.Each < time.Millisecond || c.Each > time.Second:
		return cli.Usagef("--rounds %d, --each %v: want at least 1, and 1ms to 1s", c.Rounds, c.Each)
	}
	if err := c.Load(); err != nil {
		return err
	}
	defer leastheap.Keep(uint64(c.Heap)<<20*uint64(c.Replicas), c.GC)()
	listen := "127.0.0.1:0"
	if c.Transport == "shm" {
		listen = ""
	}
	cfg := lab.Config{Transport: c.Transport, Replicas: c.Replicas,
		Placement: lab.Placement(c.Placement), Keys: c.Keys, Clients: c.Clients,
		Rounds: c.Rounds, Each: c.Each,
		Secure: c.Apply, Pin: cli.PinThread,
		Listen:   func() (transport.Transport, error) { return c.listen(listen) },
		Progress: func(line string) { fmt.Fprintln(e.Err, line) }}
	if cores := cli.AllowedCores(); c.Pin && len(cores) >= 2 {
		cfg.Cores = cores[:2]
	}
	fmt.Fprintf(e.Err, "storing %d keys\n", c.Keys)
	stop, err := cli.StartProfile(c.Profile)
	if err != nil {
		return err
	}
	r, err := lab.Run(e.Ctx, cfg)
	stop()
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(e.Out).Encode(r)
	}
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s, %d replicas as threads, %s on 2 cores, %d keys\tp50\tp99\n", r.Transport,
		r.Replicas, r.Placement, r.Keys)
	for _, row := range []struct {
		what string
		l    lab.Latency
	}{{"plain RPC, a server of its own", r.Plain}, {"plain RPC, the leader's endpoint", r.Shared},
		{"PUT at the client", r.Put}, {"a PUT's messages without Raft", r.Chain},
		{"the same with bare RawNodes", r.Bare}, {"PUT at the leader", r.Commit},
		{"GET at the client", r.Get}} {
		fmt.Fprintf(w, "%s\t%.1f us\t%.1f us\n", row.what, row.l.P50, row.l.P99)
	}
	for _, row := range []struct {
		what string
		l    *lab.Load
	}{{"PUT", r.LoadPut}, {"GET", r.LoadGet}} {
		if row.l != nil {
			fmt.Fprintf(w, "%s, half of the %.0f/s of %d clients\t%.1f us\t%.1f us\tp99/p50 %.1f\n",
				row.what, row.l.Full, c.Clients, row.l.Half.P50, row.l.Half.P99,
				row.l.Half.P99/row.l.Half.P50)
			fmt.Fprintf(w, "plain RPC, as many\t%.1f us\t%.1f us\tp99/p50 %.1f\n",
				row.l.Plain.P50, row.l.Plain.P99, row.l.Plain.P99/row.l.Plain.P50)
		}
	}
	fmt.Fprintf(w, "PUT / plain RPC, p50\t%v\t(eRPC's paper: 2.4)\n", r.Ratio)
	fmt.Fprintf(w, "its messages / plain RPC\t%v\nwith bare RawNodes\t%v\n", r.OfChain, r.OfBare)
	return w.Flush()
}
