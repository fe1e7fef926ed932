package simlab

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// LossConfig describes transfers over a lossy link (section 6.4, table 4): a client
// keeps one large request to a server outstanding, and packets vanish at random,
// in both directions.
type LossConfig struct {
	Rates     []float64 // probabilities that a packet is lost; 0 is always measured first
	Algorithm erpc.CCAlgorithm
	Size      int
	Credits   int
	Warmup    time.Duration // virtual
	Duration  time.Duration // virtual, per run
	Seeds     int           // runs per rate; their median is reported
	Seed      uint64        // of the first run
}

// Processor time of the two threads of the paper's CX5 cluster: the server,
// which copies every packet and answers it, is the bottleneck at 75 Gbit/s without loss; the client
// could do the 92 Gbit/s that the paper measured without the server's copies. Here one
// CR stands for eight packets, so that the link is the bottleneck.
const (
	cx5RunCost    = 60 * time.Nanosecond
	cx5ServerCost = 216 * time.Nanosecond
	cx5ClientCost = 172 * time.Nanosecond
)

// InfiniBand's headers and check sequences for an unreliable datagram, bytes: LRH 8,
// BTH 12, DETH 8, ICRC 4, VCRC 2.
const infinibandOverhead = 34

// cx5 is two nodes at one 100 Gbit/s InfiniBand switch. How the round trip of 2 us
// divides is an estimate.
func cx5(seed uint64) sim.Config {
	return sim.Config{Seed: seed, MTU: 4096, Checksum: true, LinkBitsPerSec: 100e9,
		PropDelay: 300 * time.Nanosecond, SwitchLatency: 200 * time.Nanosecond, CutThrough: true,
		WireOverhead: infinibandOverhead}
}

// LossRow is one rate of loss.
type LossRow struct {
	Rate        float64 `json:"loss"`
	Gbps        float64 `json:"gbps"` // median of the runs
	Share       float64 `json:"share_of_lossless"`
	Least       float64 `json:"least_gbps"`
	Most        float64 `json:"most_gbps"`
	Packets     uint64  `json:"packets"` // of all runs
	Lost        uint64  `json:"lost"`
	Retransmits uint64  `json:"retransmits"`
	Paper       float64 `json:"paper_gbps,omitempty"`
}

// LossResult is the result of Loss.
type LossResult struct {
	Sim         string    `json:"sim"`
	Seed        uint64    `json:"seed"`
	Seeds       int       `json:"seeds"`
	Algorithm   string    `json:"algorithm"`
	Size        int       `json:"size"`
	Credits     int       `json:"credits"`
	Warmup      float64   `json:"warmup_s"`
	Duration    float64   `json:"duration_s"`
	Rows        []LossRow `json:"rows"`
	Interrupted bool      `json:"interrupted,omitempty"`
}

// Loss measures the bandwidth without loss and at every rate.
func Loss(ctx context.Context, c LossConfig, progress Progress) (LossResult, error) {
	res := LossResult{Sim: "loss", Seed: c.Seed, Seeds: c.Seeds, Algorithm: c.Algorithm.String(),
		Size:    c.Size,
		Credits: c.Credits, Warmup: c.Warmup.Seconds(), Duration: c.Duration.Seconds()}
	rates := slices.DeleteFunc(slices.Clone(c.Rates), func(r float64) bool { return r == 0 })
	for _, rate := range append([]float64{0}, rates...) {
		row, err := c.rate(ctx, rate, progress)
		if err != nil {
			res.Interrupted, err = interrupted(ctx, err)
			return res, err
		}
		lossless := row.Gbps
		if len(res.Rows) > 0 {
			lossless = res.Rows[0].Gbps
		}
		row.Share = ratio(row.Gbps, lossless)
		res.Rows = append(res.Rows, row)
	}
	return res, nil
}

// rate measures one rate of loss with all seeds.
func (c *LossConfig) rate(ctx context.Context, rate float64, progress Progress) (LossRow, error) {
	row := LossRow{Rate: rate, Paper: paperLoss[rate]}
	var runs []float64
	if rate == 0 {
		row.Paper = PaperLossFree
	}
	for i := range c.Seeds {
		if rate == 0 && i > 0 {
			break // nothing is random
		}
		bandwidth, err := c.one(ctx, &row, c.Seed+uint64(i), progress)
		if err != nil {
			return row, err
		}
		runs = append(runs, bandwidth)
	}
	row.Gbps, row.Least, row.Most = median(runs), slices.Min(runs), slices.Max(runs)
	return row, nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// one makes one run, adds its packets to row and returns the bandwidth.
func (c *LossConfig) one(ctx context.Context, row *LossRow, seed uint64,
	progress Progress) (bandwidth float64, err error) {
	l, err := newLab(ctx, cx5(seed), erpc.Config{Credits: c.Credits, MaxMessage: c.Size,
		Congestion: erpc.Congestion{Algorithm: c.Algorithm}}, progress)
	if err != nil {
		return 0, err
	}
	defer l.close()
	l.what = fmt.Sprintf("loss %g, seed %d", row.Rate, seed)
	server, err := l.start(sim.EndpointConfig{Node: 0, RunCost: cx5RunCost, PacketCost: cx5ServerCost})
	if err != nil {
		return 0, err
	}
	client, err := l.start(sim.EndpointConfig{Node: 1, RunCost: cx5RunCost, PacketCost: cx5ClientCost})
	if err != nil {
		return 0, err
	}
	client.dial(server)
	if err = l.connect(); err != nil {
		return 0, err
	}
	f, err := client.newFlow(client.servers[0], c.Size, smallMessage)
	if err != nil {
		return 0, err
	}
	if err = l.net.SetFaults(sim.Faults{Loss: row.Rate}); err != nil {
		return 0, err
	}
	f.begin()
	part := float64(c.Warmup) / float64(c.Warmup+c.Duration)
	if err = l.run(c.Warmup, 0, part); err != nil {
		return 0, err
	}
	before, sent, net, begin := server.mark(), client.mark(), l.net.Stats(), l.net.Now()
	if err = l.run(c.Duration, part, 1); err != nil {
		return 0, err
	}
	after := l.net.Stats()
	row.Packets += after.Sent - net.Sent
	row.Lost += after.Lost - net.Lost
	row.Retransmits += client.rpc.Stats().Protocol.Retransmits - sent.rpc.Protocol.Retransmits
	return gbps(server.received(&before, true), l.net.Now().Sub(begin)), nil
}
