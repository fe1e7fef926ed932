package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// loadConfig says what to measure.
type loadConfig struct {
	systems   []string
	clients   int
	endpoints int
	keys      int
	names     []string // of the keys
	rounds    int
	each      time.Duration
	dir       string // for what must be in files though nothing is durable
	durable   string // folder of durable rows, empty: none
	heap      int    // least heap of each process in MiB
	alone     bool   // no system runs while another one is measured
}

// kind is one kind of request under load: medians over the rounds.
type kind struct {
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	CPU       float64 `json:"cpu_us"` // of all members together, for each request
}

func (k kind) cells() string {
	return fmt.Sprintf("%.0f\t%.0f\t%.0f\t%.1f", k.PerSecond, k.P50, k.P99, k.CPU)
}

// tail is the p99 over the median.
func (k kind) tail() float64 { return k.P99 / k.P50 }

// row is one system. At half load requests come at random times, half as many as there were before
// in the same turn.
type row struct {
	System  string  `json:"system"`
	Durable bool    `json:"durable"`
	Put     kind    `json:"put"`
	Get     kind    `json:"get"`
	HalfPut kind    `json:"half_put"`
	HalfGet kind    `json:"half_get"`
	Fsync   float64 `json:"fsync_p50_us"`
	Ratios  ratios  `json:"ratios"`
}

// name is the system and what becomes of its writes.
func (r *row) name() string {
	return r.System + map[bool]string{false: ", in memory", true: ", durable"}[r.Durable]
}

// runLoad is the subcommand load.
func runLoad(ctx context.Context, args []string, out, progress io.Writer) error {
	set := flag.NewFlagSet("raftstore load", flag.ContinueOnError)
	set.SetOutput(progress)
	var c loadConfig
	names := set.String("systems",
		"erpc,erpc-lease,erpc-loop,erpc-loop-lease,grpc-go,etcd,hashi-tcp,hraft",
		"`names`, with commas; erpc@FILE has its members run another version of this program")
	set.IntVar(&c.clients, "clients", 64, "clients, each a goroutine with one request under way")
	set.IntVar(&c.endpoints, "endpoints", 2, "endpoints or connections that the clients share")
	set.IntVar(&c.keys, "keys", 10_000, "`keys` to choose from")
	set.IntVar(&c.rounds, "rounds", 5, "turns, whose medians are reported")
	set.DurationVar(&c.each, "each", time.Second, "how long a turn takes")
	set.StringVar(&c.dir, "memory", shared(), "`folder` in memory for systems that must have files")
	set.StringVar(&c.durable, "durable", os.TempDir(),
		"`folder` on a disk for durable rows; empty: none")
	set.BoolVar(&c.alone, "alone", false,
		"start each system for each of its turns, so that none is idle beside another")
	asJSON := set.Bool("json", false, "print one JSON object")
	heap := heapFlag(set)
	if err := set.Parse(args); err != nil {
		return err
	}
	c.systems = strings.Split(*names, ",")
	for _, s := range c.systems {
		if s, _ = binaryOf(s); systems[s].member == nil {
			return fmt.Errorf("-systems: there is no %q", s)
		}
	}
	if c.clients < 1 || c.endpoints < 1 || c.endpoints > c.clients || c.keys < 1 || c.rounds < 1 ||
		c.each < time.Millisecond {
		return fmt.Errorf("-clients %d, -endpoints %d, -keys %d, -rounds %d, -each %v: "+
			"want at least 1, no more endpoints than clients, and 1ms",
			c.clients, c.endpoints, c.keys, c.rounds, c.each)
	}
	c.heap, c.names = *heap, keyNames(c.keys)
	stop, err := keepHeap(c.heap)
	if err != nil {
		return err
	}
	defer stop()
	rows, err := load(ctx, &c, progress)
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(out).Encode(rows)
	}
	return printRows(out, &c, rows)
}

// printRows prints a table of full load, one of half load, and one of ratios.
func printRows(out io.Writer, c *loadConfig, rows []row) error {
	fmt.Fprintf(out, "3 replicas, a process each, %d clients over %d endpoints, medians of %d turns; "+
		"GOGC %d and a least heap of %d MiB in each process\n",
		c.clients, c.endpoints, c.rounds, gcPercent, c.heap)
	const columns = "p50 us\tp99 us\tCPU us"
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tPUT/s\t%s\tGET/s\t%s\tfsync p50 us\n", columns, columns)
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\n", r.name(), r.Put.cells(), r.Get.cells(), r.Fsync)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nhalf of that load: a Poisson process, times from when each was due")
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tPUT/s\t%s\tGET/s\t%s\n", columns, columns)
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.name(), r.HalfPut.cells(), r.HalfGet.cells())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printRatios(out, rows)
}

// shared is a folder in memory where there is one.
func shared() string {
	if s, err := os.Stat("/dev/shm"); err == nil && s.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}

// subject is a system that runs.
type subject struct {
	row      row
	children *children
	clients  crowd
	dir      string
	puts     turns
	gets     turns
}

// turns has the figures of one kind of request.
type turns struct{ full, half []kind }

// noDisk says which systems have no durable row: the store over grpc-go and the least program have
// no disk, and a lease has nothing to do with one.
func noDisk(system string) bool {
	system, _ = binaryOf(system)
	return system == "grpc-go" || strings.HasSuffix(system, "-lease") ||
		strings.HasPrefix(system, "least")
}

// load measures all systems in turns.
func load(ctx context.Context, c *loadConfig, progress io.Writer) (rows []row, err error) {
	var all []*subject
	defer func() {
		for _, s := range all {
			err = errors.Join(err, s.close())
		}
	}()
	for _, durable := range []bool{false, true} {
		for _, name := range c.systems {
			if durable && (c.durable == "" || noDisk(name)) {
				continue
			}
			s := &subject{row: row{System: name, Durable: durable}}
			all = append(all, s)
			if c.alone {
				continue
			}
			if err := s.open(ctx, c); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for round := range c.rounds {
		for _, s := range all {
			if err := s.round(ctx, c); err != nil {
				return nil, fmt.Errorf("%s: %w", s.row.System, err)
			}
			fmt.Fprintf(progress, "round %d of %d: %s, durable %v: %s\n", round+1, c.rounds,
				s.row.System, s.row.Durable, s.last())
		}
	}
	ratiosOf(all)
	for _, s := range all {
		s.row.Put, s.row.Get = medianKind(s.puts.full), medianKind(s.gets.full)
		s.row.HalfPut, s.row.HalfGet = medianKind(s.puts.half), medianKind(s.gets.half)
		rows = append(rows, s.row)
	}
	return rows, nil
}

// round measures a system once. If it is to be alone its processes run only meanwhile.
func (s *subject) round(ctx context.Context, c *loadConfig) error {
	if c.alone {
		if err := s.open(ctx, c); err != nil {
			return err
		}
	}
	for _, write := range []bool{true, false} {
		if err := s.both(ctx, c, write); err != nil {
			return err
		}
	}
	if s.row.Durable {
		f, err := s.children.figures()
		if err != nil {
			return err
		}
		s.row.Fsync = float64(f.Fsync) / 1e3
	}
	if c.alone {
		return s.close()
	}
	return nil
}

// open starts the system and stores the keys. Whatever there is then, close ends it.
func (s *subject) open(ctx context.Context, c *loadConfig) (err error) {
	name, durable := s.row.System, s.row.Durable
	system, _ := binaryOf(name)
	sys := systems[system]
	parent := c.durable
	if !durable {
		parent = c.dir
	}
	if durable || sys.files {
		if s.dir, err = os.MkdirTemp(parent, "raftstore"); err != nil {
			return err
		}
	}
	each := start{Keys: c.keys, Sync: durable}
	if strings.HasSuffix(system, "-lease") {
		each.Lease = 100 * time.Millisecond
	}
	if s.children, err = startChildren(ctx, name, 3, each, s.dir); err != nil {
		return err
	}
	s.clients, err = sys.clients(ctx, s.children.members, c.endpoints, c.clients)
	if err != nil {
		return err
	}
	return s.clients.fill(ctx, c.names)
}

// both measures one kind of request under full load, and then at half of that.
func (s *subject) both(ctx context.Context, c *loadConfig, write bool) error {
	to := &s.gets
	if write {
		to = &s.puts
	}
	j := job{write: write, names: c.names, each: c.each}
	full, err := s.turn(ctx, &j)
	if err != nil {
		return err
	}
	j.rate = full.PerSecond / 2
	half, err := s.turn(ctx, &j)
	to.full, to.half = append(to.full, full), append(to.half, half)
	return err
}

// last is the last round as text.
func (s *subject) last() string {
	i := len(s.puts.full) - 1
	return fmt.Sprintf("PUT %.0f/s, at half %.0f and %.0f us; GET %.0f/s, at half %.0f and %.0f us",
		s.puts.full[i].PerSecond, s.puts.half[i].P50, s.puts.half[i].P99,
		s.gets.full[i].PerSecond, s.gets.half[i].P50, s.gets.half[i].P99)
}

// turn measures one job.
func (s *subject) turn(ctx context.Context, j *job) (k kind, err error) {
	before, err := s.children.figures()
	if err != nil {
		return k, err
	}
	d, err := s.clients.run(ctx, j)
	if err != nil {
		return k, err
	}
	after, err := s.children.figures()
	n := float64(d.hist.TotalCount())
	us := func(q float64) float64 { return float64(d.hist.ValueAtQuantile(q)) / 1e3 }
	cpu := float64(after.CPU-before.CPU) / 1e3 / n
	return kind{PerSecond: n / d.took.Seconds(), P50: us(50), P99: us(99), CPU: cpu}, err
}

func (s *subject) close() (err error) {
	if s.clients != nil {
		err = s.clients.close()
	}
	if s.children != nil {
		err = errors.Join(err, s.children.close())
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	s.clients, s.children, s.dir = nil, nil, ""
	return err
}

// medianKind takes each figure's own median.
func medianKind(list []kind) kind {
	mid := func(f func(kind) float64) float64 {
		var v []float64
		for _, k := range list {
			v = append(v, f(k))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return kind{mid(func(k kind) float64 { return k.PerSecond }),
		mid(func(k kind) float64 { return k.P50 }),
		mid(func(k kind) float64 { return k.P99 }), mid(func(k kind) float64 { return k.CPU })}
}
