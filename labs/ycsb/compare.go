package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/userspace-rpc/erpc/kit/outfile"
	"github.com/userspace-rpc/erpc/labs/ycsb/peer"
	"github.com/userspace-rpc/erpc/labs/ycsb/run"
)

// paper has the speedups over gRPC of the RR-Compound paper's Table V.
var paper = map[string]float64{"a": 1.63, "b": 2.24, "c": 2.04, "d": 2.33, "e": 1.97, "f": 2.35}

// cell is all rounds of a peer on a workload.
type cell struct {
	Workload string        `json:"workload"`
	Peer     string        `json:"peer"`
	Rounds   []*run.Result `json:"rounds"`
	Rate     float64       `json:"median_ops_per_s"`
	CPU      float64       `json:"median_cpu_us_per_op"`
	P50, P99 float64       `json:"-"`
	Ratio    [3]float64    `json:"rate_ratio"` // to Base within a round: median, least, most
	CPURatio [3]float64    `json:"cpu_ratio"`
}

// compare measures all peers on all workloads, in turns.
func compare(ctx context.Context, o *options, out io.Writer) error {
	peers := peer.Names
	if o.peers != "" {
		peers = strings.Split(o.peers, ",")
	}
	for _, p := range peers {
		if p != peer.None && !slices.Contains(peer.Names, p) {
			return fmt.Errorf("%w: %q; there are %v and %s", peer.ErrUnknown, p, peer.Names,
				peer.None)
		}
	}
	if !slices.Contains(peers, peer.Base) {
		peers = append([]string{peer.Base}, peers...)
	}
	for _, w := range strings.Split(o.workloads, "") {
		if _, err := o.spec(w, peer.Base); err != nil {
			return err // before anything is measured
		}
	}
	fmt.Fprintf(out, "%s, %d records of %d bytes, %d clients, connections: %d (0: one each), "+
		"%d rounds of %v\n",
		o.store, o.records, o.schema.Bytes(), o.clients, o.conns, o.rounds, o.each)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "workload\tpeer\tops/s\tp50 us\tp99 us\tCPU us/op\trate : grpc-tcp\t(range)\t"+
		"paper\tCPU : grpc-tcp\t(range)\t")
	var cells []*cell
	var errs []error
	for _, w := range strings.Split(o.workloads, "") {
		row, err := o.row(ctx, w, peers)
		errs = append(errs, err)
		for _, c := range row {
			said := ""
			if strings.HasPrefix(c.Peer, "erpc") {
				said = fmt.Sprint(paper[w])
			}
			fmt.Fprintf(t, "%s\t%s\t%.0f\t%.0f\t%.0f\t%.1f\t%.2f\t(%.2f-%.2f)\t%s\t"+
				"%.2f\t(%.2f-%.2f)\t\n", strings.ToUpper(w), c.Peer, c.Rate, c.P50, c.P99, c.CPU, c.Ratio[0],
				c.Ratio[1], c.Ratio[2], said, c.CPURatio[0], c.CPURatio[1], c.CPURatio[2])
		}
		cells = append(cells, row...)
		if ctx.Err() != nil {
			break
		}
	}
	errs = append(errs, t.Flush())
	if o.out != "" {
		errs = append(errs, write(o, cells))
	}
	return errors.Join(errs...)
}

// row measures a workload. The cells are good also if there is an error.
func (o *options) row(ctx context.Context, workload string, peers []string) ([]*cell, error) {
	cells := make([]*cell, len(peers))
	for i, p := range peers {
		cells[i] = &cell{Workload: workload, Peer: p}
	}
	var errs []error
	for round := range o.rounds {
		for i := range cells {
			c := cells[(i+round)%len(cells)] // each is first once
			spec, err := o.spec(workload, c.Peer)
			if err != nil {
				return nil, err
			}
			r, err := measure(ctx, o, c.Peer, spec)
			if err != nil {
				return nil, fmt.Errorf("workload %s over %s: %w", workload, c.Peer, err)
			}
			if err := r.Err(); err != nil {
				errs = append(errs, fmt.Errorf("workload %s over %s: %w", workload, c.Peer, err))
			}
			c.Rounds = append(c.Rounds, r)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		fmt.Fprintf(os.Stderr, "workload %s: round %d of %d\n", workload, round+1, o.rounds)
	}
	base := cells[slices.Index(peers, peer.Base)]
	for _, c := range cells {
		c.sum(base)
	}
	return cells, errors.Join(errs...)
}

// sum fills in the medians.
func (c *cell) sum(base *cell) {
	var rate, cpu, p50, p99, ratio, cpuRatio []float64
	for i, r := range c.Rounds {
		b := base.Rounds[i]
		rate = append(rate, r.Rate())
		cpu = append(cpu, float64(r.CPU())/1e3)
		p50 = append(p50, float64(r.Quantile(0.5))/1e3)
		p99 = append(p99, float64(r.Quantile(0.99))/1e3)
		ratio = append(ratio, part(r.Rate(), b.Rate()))
		cpuRatio = append(cpuRatio, float64(r.CPU())/float64(max(b.CPU(), 1)))
	}
	c.Rate, c.CPU, c.P50, c.P99 = median(rate)[0], median(cpu)[0], median(p50)[0], median(p99)[0]
	c.Ratio, c.CPURatio = median(ratio), median(cpuRatio)
}

// part returns a ratio, 0 to a base that did nothing.
func part(rate, base float64) float64 {
	if base == 0 {
		return 0
	}
	return rate / base
}

// median returns the median, the least and the most.
func median(list []float64) [3]float64 {
	slices.Sort(list)
	return [3]float64{list[len(list)/2], list[0], list[len(list)-1]}
}

// write leaves the figures and a plot in a folder.
func write(o *options, cells []*cell) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(cells, "", " ")
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%d-%d", o.store, o.records, o.clients)
	return errors.Join(outfile.Write(filepath.Join(o.out, name+".json"), text, 0o644),
		plotSpeedups(filepath.Join(o.out, name+".svg"), cells))
}
