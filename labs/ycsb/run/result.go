package run

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/userspace-rpc/erpc/ycsb"
)

// Result has the measurements of a run.
type Result struct {
	Clients   int
	Conns     int
	Took      time.Duration
	ClientCPU time.Duration // of this process, user and system
	ServerCPU time.Duration // set by who knows the server; 0: unknown
	Counts    ycsb.Counts
	Hists     [ycsb.Ops]*hdrhistogram.Histogram // ns; nil: no such operation
	Lost      int                               // clients that gave up
	Errors    map[string]int64                  // texts, the first few of each client
}

func (r *Result) sum(workers []*worker) {
	r.Errors = map[string]int64{}
	for _, w := range workers {
		for text, n := range w.firsts {
			if r.Errors[text] > 0 || len(r.Errors) < maxTexts {
				r.Errors[text] += n
			}
		}
	}
}

// Ops is how many operations were answered.
func (r *Result) Ops() int64 { return r.Counts.Done + r.Counts.Bad() }

// Rate is the operations per second, 0 if it took no time.
func (r *Result) Rate() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Ops()) / r.Took.Seconds()
}

// CPU is the CPU time per operation of both sides, as far as known.
func (r *Result) CPU() time.Duration {
	return (r.ClientCPU + r.ServerCPU) / time.Duration(max(r.Ops(), 1))
}

// Quantile is a quantile of the latencies of all operations together: 0.5, 0.99.
func (r *Result) Quantile(q float64) time.Duration {
	all := NewHist()
	for _, h := range r.Hists {
		if h != nil {
			all.Merge(h)
		}
	}
	return time.Duration(all.ValueAtQuantile(100 * q))
}

// Err says what went wrong in a run, if anything did. The measurements are good all the same.
func (r *Result) Err() error {
	c := r.Counts
	if c.Bad() == 0 && c.Failed == 0 && r.Lost == 0 {
		return nil
	}
	texts := make([]string, 0, len(r.Errors))
	for text, n := range r.Errors {
		texts = append(texts, fmt.Sprintf("%d times %s", n, text))
	}
	slices.Sort(texts)
	return fmt.Errorf("%d missing, %d wrong, %d stale, %d failed, %d of %d clients gave up: %s",
		c.Missing, c.Wrong, c.Stale, c.Failed, r.Lost, r.Clients, strings.Join(texts, "; "))
}

// opJSON are the latencies of an operation, in microseconds.
type opJSON struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_us"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

// MarshalJSON writes times in units that their names say.
func (r *Result) MarshalJSON() ([]byte, error) {
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	ops := map[string]opJSON{}
	for op, h := range r.Hists {
		if h != nil {
			ops[ycsb.Op(op).String()] = opJSON{
				h.TotalCount(), h.Mean() / 1e3, us(h.ValueAtQuantile(50)), us(h.ValueAtQuantile(99)),
				us(h.ValueAtQuantile(99.9)), us(h.Max()),
			}
		}
	}
	return json.Marshal(map[string]any{
		"clients": r.Clients, "conns": r.Conns, "seconds": r.Took.Seconds(), "ops_per_s": r.Rate(),
		"client_cpu_us_per_op": r.perOp(r.ClientCPU), "server_cpu_us_per_op": r.perOp(r.ServerCPU),
		"done": r.Counts.Done, "missing": r.Counts.Missing, "wrong": r.Counts.Wrong,
		"stale": r.Counts.Stale, "failed": r.Counts.Failed, "clients_lost": r.Lost,
		"errors": r.Errors, "operations": ops,
	})
}

func (r *Result) perOp(d time.Duration) float64 {
	return float64(d) / 1e3 / float64(max(r.Ops(), 1))
}
