package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/userspace-rpc/erpc/kit/outfile"
	"github.com/userspace-rpc/erpc/labs/ycsb/peer"
	"github.com/userspace-rpc/erpc/labs/ycsb/run"
	"github.com/userspace-rpc/erpc/labs/ycsb/store"
	"github.com/userspace-rpc/erpc/ycsb"
)

// runOne makes one run and prints its result.
func runOne(ctx context.Context, o *options, out io.Writer) error {
	spec, err := o.spec(o.workload, o.peer)
	if err != nil {
		return err
	}
	record := func(run.Progress) error { return nil }
	if o.hdr != "" {
		f, err := outfile.Create(o.hdr, 0o666)
		if err != nil {
			return err
		}
		defer f.Close()
		if record, err = hdrLog(f); err != nil {
			return err
		}
	}
	var logged error
	spec.Each = func(p run.Progress) {
		fmt.Fprintf(os.Stderr, "%6.1f s  %d ops  %d missing, wrong or stale  %d failed\n",
			p.Elapsed.Seconds(), p.Ops, p.Counts.Bad(), p.Counts.Failed)
		logged = errors.Join(logged, record(p))
	}
	r, err := measure(ctx, o, o.peer, spec)
	if err != nil {
		return err
	}
	if o.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		err = printResult(out, r)
	}
	return errors.Join(err, logged, r.Err())
}

// measure makes a run, with a server of its own unless the options name one. It is an error if it
// could not begin; what goes wrong afterwards is in the Result.
func measure(
	ctx context.Context, o *options, over string, spec run.Spec,
) (_ *run.Result, err error) {
	if over == peer.None {
		return bare(ctx, o, spec)
	}
	addr, cpu := o.addr, func() (time.Duration, error) { return 0, nil }
	if addr == "" {
		s, err := startServer(o, over)
		if err != nil {
			return nil, err
		}
		defer func() { _ = s.stop() }() // the Result says whether it has died
		addr, cpu = s.addr, s.cpu
	}
	var conns []*peer.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	before, began := time.Duration(0), make(chan struct{})
	warm := time.AfterFunc(spec.Warmup, func() { before, _ = cpu(); close(began) })
	r, err := run.Do(ctx, spec, func(int) (ycsb.DB, error) {
		c, err := peer.Dial(ctx, over, addr)
		if err == nil {
			conns = append(conns, c)
		}
		return c, err
	})
	if !warm.Stop() {
		<-began
	}
	if err != nil {
		return nil, err
	}
	if after, err := cpu(); err == nil {
		r.ServerCPU = after - before
	}
	return r, nil
}

// bare makes a run without a transport, on a store in this process. All CPU time is the client's.
func bare(ctx context.Context, o *options, spec run.Spec) (_ *run.Result, err error) {
	dir := o.dir
	if o.store == "pebble" && dir == "" {
		if dir, err = os.MkdirTemp("", "ycsb"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	s, err := store.Open(store.Config{Kind: o.store, Schema: o.schema, Records: o.records, Dir: dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := store.Load(s, o.schema, o.records); err != nil {
		return nil, err
	}
	return run.Do(ctx, spec, func(int) (ycsb.DB, error) {
		return peer.Direct(&store.Service{Store: s}), nil
	})
}

// hdrLog begins a log of histograms and returns what adds an interval.
func hdrLog(w io.Writer) (func(run.Progress) error, error) {
	l := hdrhistogram.NewHistogramLogWriter(w)
	start := time.Now()
	err := errors.Join(
		l.OutputLogFormatVersion(), l.OutputStartTime(start.UnixMilli()), l.OutputLegend())
	last := start
	return func(p run.Progress) error {
		now := time.Now()
		var errs []error
		for op, h := range p.Hists {
			if h != nil {
				h.SetTag(ycsb.Op(op).String())
				h.SetStartTimeMs(last.UnixMilli())
				h.SetEndTimeMs(now.UnixMilli())
				errs = append(errs, l.OutputIntervalHistogram(h))
			}
		}
		last = now
		return errors.Join(errs...)
	}, err
}

func printResult(out io.Writer, r *run.Result) error {
	fmt.Fprintf(out, "%.0f ops/s; CPU us per op: client %.1f, server %.1f\n", r.Rate(),
		us(r.ClientCPU, r.Ops()), us(r.ServerCPU, r.Ops()))
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "operation\tcount\tp50 us\tp99 us\tp99.9 us\tmax us\t")
	for op, h := range r.Hists {
		if h != nil {
			fmt.Fprintf(t, "%v\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t\n", ycsb.Op(op), h.TotalCount(),
				float64(h.ValueAtQuantile(50))/1e3, float64(h.ValueAtQuantile(99))/1e3,
				float64(h.ValueAtQuantile(99.9))/1e3, float64(h.Max())/1e3)
		}
	}
	return t.Flush()
}

func us(d time.Duration, ops int64) float64 { return float64(d) / 1e3 / float64(max(ops, 1)) }
