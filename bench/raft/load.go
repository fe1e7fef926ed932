package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
)

// caller does one request of one client, which makes one after the other.
type caller func(ctx context.Context, write bool, key string, value []byte) error

// dialer returns a caller for each client, over some endpoints or connections in turn.
type dialer func(ctx context.Context, members map[uint64]string, endpoints, clients int) (
	callers []caller, stop func() error, err error)

// loadConfig says what to measure.
type loadConfig struct {
	systems   []string
	clients   int
	endpoints int
	keys      int
	rounds    int
	each      time.Duration
	dir       string // for what must be in files though nothing is durable
	durable   string // folder of durable rows, empty: none
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

// row is one system.
type row struct {
	System  string  `json:"system"`
	Durable bool    `json:"durable"`
	Put     kind    `json:"put"`
	Get     kind    `json:"get"`
	Fsync   float64 `json:"fsync_p50_us"`
}

// runLoad is the subcommand load.
func runLoad(ctx context.Context, args []string, out, progress io.Writer) error {
	set := flag.NewFlagSet("raftstore load", flag.ContinueOnError)
	set.SetOutput(progress)
	var c loadConfig
	names := set.String("systems", "erpc,erpc-lease,grpc-go,etcd,hashi-tcp,hraft",
		"`names`, with commas")
	set.IntVar(&c.clients, "clients", 64, "clients, each a goroutine with one request under way")
	set.IntVar(&c.endpoints, "endpoints", 4, "endpoints or connections that the clients share")
	set.IntVar(&c.keys, "keys", 10_000, "`keys` to choose from")
	set.IntVar(&c.rounds, "rounds", 5, "turns, whose medians are reported")
	set.DurationVar(&c.each, "each", time.Second, "how long a turn takes")
	set.StringVar(&c.dir, "memory", shared(), "`folder` in memory for systems that must have files")
	set.StringVar(&c.durable, "durable", os.TempDir(),
		"`folder` on a disk for durable rows; empty: none")
	asJSON := set.Bool("json", false, "print one JSON object")
	if err := set.Parse(args); err != nil {
		return err
	}
	c.systems = strings.Split(*names, ",")
	for _, s := range c.systems {
		if _, ok := systems[s]; !ok {
			return fmt.Errorf("-systems: there is no %q", s)
		}
	}
	if c.clients < 1 || c.endpoints < 1 || c.endpoints > c.clients || c.keys < 1 || c.rounds < 1 ||
		c.each < time.Millisecond {
		return fmt.Errorf("-clients %d, -endpoints %d, -keys %d, -rounds %d, -each %v: "+
			"want at least 1, no more endpoints than clients, and 1ms",
			c.clients, c.endpoints, c.keys, c.rounds, c.each)
	}
	rows, err := load(ctx, &c, progress)
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(out).Encode(rows)
	}
	fmt.Fprintf(out, "3 replicas, a process each, %d clients over %d endpoints, medians of %d turns\n",
		c.clients, c.endpoints, c.rounds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tPUT/s\tp50 us\tp99 us\tCPU us\tGET/s\tp50 us\tp99 us\tCPU us\tfsync p50 us")
	for _, r := range rows {
		where := map[bool]string{false: "in memory", true: "durable"}[r.Durable]
		fmt.Fprintf(w, "%s, %s\t%s\t%s\t%.0f\n", r.System, where, r.Put.cells(), r.Get.cells(), r.Fsync)
	}
	return w.Flush()
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
	callers  []caller
	stop     func() error
	dir      string
	puts     []kind
	gets     []kind
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
			if durable && (c.durable == "" || name == "grpc-go" || name == "erpc-lease") {
				continue // grpc-go's has no disk, and a lease has nothing to do with one
			}
			s, err := openSubject(ctx, name, durable, c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, s)
		}
	}
	for round := range c.rounds {
		for _, s := range all {
			for _, write := range []bool{true, false} {
				k, err := s.turn(ctx, c, write)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", s.row.System, err)
				}
				fmt.Fprintf(progress, "round %d of %d: %s, durable %v, write %v: %.0f/s, CPU %.1f us\n",
					round+1, c.rounds, s.row.System, s.row.Durable, write, k.PerSecond, k.CPU)
				if write {
					s.puts = append(s.puts, k)
				} else {
					s.gets = append(s.gets, k)
				}
			}
		}
	}
	for _, s := range all {
		f, err := s.children.figures()
		if err != nil {
			return nil, err
		}
		s.row.Put, s.row.Get = medianKind(s.puts), medianKind(s.gets)
		if s.row.Durable {
			s.row.Fsync = float64(f.Fsync) / 1e3
		}
		rows = append(rows, s.row)
	}
	return rows, nil
}

// openSubject starts a system and stores the keys.
func openSubject(ctx context.Context, name string, durable bool, c *loadConfig) (*subject, error) {
	s := &subject{row: row{System: name, Durable: durable}}
	if err := s.open(ctx, name, durable, c); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *subject) open(ctx context.Context, name string, durable bool, c *loadConfig) (err error) {
	sys := systems[name]
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
	if name == "erpc-lease" {
		each.Lease = 100 * time.Millisecond
	}
	if s.children, err = startChildren(ctx, name, 3, each, s.dir); err != nil {
		return err
	}
	s.callers, s.stop, err = sys.dial(ctx, s.children.members, c.endpoints, c.clients)
	if err != nil {
		return err
	}
	next := make(chan int)
	go func() {
		defer close(next)
		for i := range c.keys {
			next <- i
		}
	}()
	_, err = s.each(ctx, func(ctx context.Context, _ int, call caller) error {
		for i := range next {
			if err := call(ctx, true, keyOf(i), make([]byte, kv.MaxValue)); err != nil {
				for range next { // nobody else will
				}
				return err
			}
		}
		return nil
	})
	return err
}

func keyOf(i int) string { return fmt.Sprintf("key-%012d", i) }

// each runs f for each client in a goroutine, and returns how long all took.
func (s *subject) each(ctx context.Context, f func(ctx context.Context, i int, call caller) error) (
	took time.Duration, err error,
) {
	var wg sync.WaitGroup
	errs := make([]error, len(s.callers))
	began := monotime.Now()
	for i, call := range s.callers {
		wg.Go(func() { errs[i] = f(ctx, i, call) })
	}
	wg.Wait()
	return monotime.Now().Sub(began), errors.Join(errs...)
}

// turn measures one kind of request.
func (s *subject) turn(ctx context.Context, c *loadConfig, write bool) (k kind, err error) {
	before, err := s.children.figures()
	if err != nil {
		return k, err
	}
	hists := make([]*hdrhistogram.Histogram, len(s.callers))
	took, err := s.each(ctx, func(ctx context.Context, i int, call caller) error {
		h := hdrhistogram.New(1, 60e9, 3)
		hists[i] = h
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		value := make([]byte, kv.MaxValue)
		for now, end := monotime.Now(), monotime.Now().Add(c.each); now < end; {
			if err := call(ctx, write, keyOf(rng.IntN(c.keys)), value); err != nil {
				return err
			}
			done := monotime.Now()
			_ = h.RecordValue(int64(done.Sub(now)))
			now = done
		}
		return nil
	})
	if err != nil {
		return k, err
	}
	after, err := s.children.figures()
	for _, h := range hists[1:] {
		hists[0].Merge(h)
	}
	n := float64(hists[0].TotalCount())
	us := func(q float64) float64 { return float64(hists[0].ValueAtQuantile(q)) / 1e3 }
	cpu := float64(after.CPU-before.CPU) / 1e3 / n
	return kind{PerSecond: n / took.Seconds(), P50: us(50), P99: us(99), CPU: cpu}, err
}

func (s *subject) close() (err error) {
	if s.stop != nil {
		err = s.stop()
	}
	if s.children != nil {
		err = errors.Join(err, s.children.close())
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
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
