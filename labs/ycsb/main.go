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
	"time"

	"github.com/userspace-rpc/erpc/labs/ycsb/peer"
	"github.com/userspace-rpc/erpc/labs/ycsb/run"
	"github.com/userspace-rpc/erpc/labs/ycsb/store"
	"github.com/userspace-rpc/erpc/ycsb"
)

// errUsage is the error of a command line.
var errUsage = errors.New("usage: ycsb serve|load|run|compare [flags]; -h after each lists them")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ycsb:", err)
		stop()
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	do := map[string]func(context.Context, *options, io.Writer) error{
		"serve": serve, "load": load, "run": runOne, "compare": compare,
	}[args[0]]
	if do == nil {
		return fmt.Errorf("no command %q; %w", args[0], errUsage)
	}
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return do(ctx, o, out)
}

// options are the flags of all commands.
type options struct {
	store, dir, peer, addr string
	workload, workloads    string
	peers                  string
	records, preload, ops  int64
	clients, conns, rounds int
	each, warmup           time.Duration
	schema                 ycsb.Schema
	seed                   uint64
	json                   bool
	hdr, out               string
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("ycsb "+args[0], flag.ContinueOnError)
	f.StringVar(&o.store, "store", "index", "index, mica or pebble")
	f.StringVar(&o.dir, "dir", "", "pebble's folder; without it a temporary one")
	f.StringVar(&o.peer, "peer", "erpc-udp", fmt.Sprint("one of ", peer.Names))
	f.StringVar(&o.peers, "peers", "",
		"compare: with commas between them, none for no transport; all others without it")
	f.StringVar(&o.addr, "addr", "", "of the server; run starts one of its own without it")
	f.StringVar(&o.workload, "workload", "c", "a to f")
	f.StringVar(&o.workloads, "workloads", "abcdef", "compare: which")
	f.Int64Var(&o.records, "records", 20_000, "records that are loaded")
	f.Int64Var(&o.preload, "preload", 0, "serve: records to load before serving")
	f.Int64Var(&o.ops, "ops", 0, "operations; 0: as many as fit in -for")
	f.IntVar(&o.clients, "clients", 64, "clients, each with one operation under way")
	f.IntVar(&o.conns, "conns", 1, "connections that they share; 0: one each")
	f.IntVar(&o.rounds, "rounds", 5, "compare: measurements of each")
	f.DurationVar(&o.each, "for", time.Second, "how long a measurement takes; 0: until -ops are done")
	f.DurationVar(&o.warmup, "warmup", 200*time.Millisecond, "before it")
	f.IntVar(&o.schema.Fields, "fields", 10, "of a record")
	f.IntVar(&o.schema.FieldBytes, "field-bytes", 100, "of a field")
	f.Uint64Var(&o.seed, "seed", 1, "of the choices")
	f.BoolVar(&o.json, "json", false, "print an object")
	f.StringVar(&o.hdr, "hdr", "", "run: a file for a log of HdrHistograms")
	f.StringVar(&o.out, "out", "", "compare: a folder for plots and JSON")
	if err := f.Parse(args[1:]); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("an argument too many: %q", f.Arg(0))
	}
	if !slices.Contains(peer.Names, o.peer) {
		return nil, fmt.Errorf("%w: %q; there are %v", peer.ErrUnknown, o.peer, peer.Names)
	}
	if !slices.Contains(store.Kinds, o.store) {
		return nil, fmt.Errorf("%w: %q; there are %v", store.ErrUnknown, o.store, store.Kinds)
	}
	var err error
	o.schema, err = o.schema.Complete()
	return o, err
}

// spec is the run that the options describe, of a workload over a peer.
func (o *options) spec(workload, over string) (run.Spec, error) {
	w, err := ycsb.Standard(workload)
	if err == nil {
		err = store.Supports(o.store, w)
	}
	s := run.Spec{
		Workload: w, Schema: o.schema, Records: o.records, Clients: o.clients, Conns: o.conns,
		Duration: o.each, Ops: o.ops, Warmup: o.warmup, Seed: o.seed,
		First: uint32(time.Now().UnixMilli()&0x7fff+1) << 9, // another one than in runs before
	}
	if peer.Alone(over) {
		s.Conns = 0
	}
	return s, err
}
