package report

import (
	"slices"
)

// Run is one measurement. The fields that bin/erpc prints too have the same names.
type Run struct {
	Bench       string  `json:"bench"` // rate or latency
	Peer        string  `json:"peer"`
	Version     string  `json:"version,omitempty"`
	Transport   string  `json:"transport"`
	Cores       string  `json:"cores"` // Pinned or Unpinned
	Size        int     `json:"size"`
	RespSize    int     `json:"resp_size"`
	Window      int     `json:"window"`
	Conns       int     `json:"conns,omitempty"`
	Sessions    int     `json:"sessions,omitempty"`
	Duration    float64 `json:"duration_s"`
	Rpcs        int64   `json:"rpcs"`
	Rps         float64 `json:"rps"`
	Mean        float64 `json:"mean_us"`
	P50         float64 `json:"p50_us"`
	P99         float64 `json:"p99_us"`
	P999        float64 `json:"p999_us"`
	Max         float64 `json:"max_us"`
	Gbps        float64 `json:"gbps,omitempty"`
	CPU         float64 `json:"cpu_ns_per_rpc,omitempty"`
	Retransmits uint64  `json:"retransmits,omitempty"`
	Errors      uint64  `json:"errors"`
	Round       int     `json:"round,omitempty"`
}

// Where client and server run.
const (
	Pinned   = "pinned"   // the client on one core, the server on another
	Unpinned = "unpinned" // both wherever the kernel puts them
)

// bulk is the message size in bytes from which a rate is also told in bits.
const bulk = 4096

// SetGbps fills in Gbps of a run with large messages: those of the larger direction.
func (r *Run) SetGbps() {
	if n := max(r.Size, r.RespSize); n >= bulk && r.Bench == "rate" {
		r.Gbps = r.Rps * float64(n) * 8 / 1e9
	}
}

// Stat is a figure over several rounds.
type Stat struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// StatOf sums up the figures, which may be none.
func StatOf(v []float64) Stat {
	if len(v) == 0 {
		return Stat{}
	}
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return Stat{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

// Comparison is a number of runs made in turns, and what they come to.
type Comparison struct {
	Bench       string   `json:"bench"` // peers
	Machine     Machine  `json:"machine"`
	Size        int      `json:"size"`
	RespSize    int      `json:"resp_size"`
	Window      int      `json:"window"` // of the rate; latency has 1
	Rounds      int      `json:"rounds"`
	Duration    float64  `json:"duration_s"` // of each run
	Base        string   `json:"base"`       // the peer that ratios are to
	Interrupted bool     `json:"interrupted,omitempty"`
	Failures    []string `json:"failures,omitempty"` // turns that gave no runs, and why
	LeftOut     []string `json:"left_out,omitempty"` // peers that cannot do it, and why
	Rows        []Row    `json:"rows"`
	Notes       []string `json:"notes"`
	Runs        []Run    `json:"runs"`
}

// Row is one peer in a Comparison: rate and latency each from that placement on the
// cores which was the better one.
type Row struct {
	Peer         string `json:"peer"`
	Version      string `json:"version,omitempty"`
	Transport    string `json:"transport"`
	Conns        int    `json:"conns,omitempty"` // for the rate
	RateCores    string `json:"rate_cores"`
	Rps          Stat   `json:"rps"`
	Ratio        *Stat  `json:"ratio_to_base,omitempty"` // of rates, round by round
	CPU          Stat   `json:"cpu_ns_per_rpc"`          // with the window in flight
	Gbps         *Stat  `json:"gbps,omitempty"`
	LatencyCores string `json:"latency_cores"`
	P50          Stat   `json:"p50_us"` // with 1 in flight, as P99
	P99          Stat   `json:"p99_us"`
}

// Compare sums up runs made in rounds; c has all but rows and runs.
func Compare(c Comparison, runs []Run) Comparison {
	c.Bench, c.Runs = "peers", runs
	c.Notes = slices.Clone(notes)
	for _, why := range c.LeftOut {
		c.Notes = append(c.Notes, "Left out: "+why)
	}
	for _, f := range c.Failures {
		c.Notes = append(c.Notes, "Failed, and not in the figures: "+f)
	}
	var names []string
	for _, r := range runs {
		if !slices.Contains(names, r.Peer) {
			names = append(names, r.Peer)
		}
	}
	rps := func(r Run) float64 { return r.Rps }
	base := better(of(runs, "rate", c.Base), rps, true)
	for _, name := range names {
		rate := better(of(runs, "rate", name), rps, true)
		lat := better(of(runs, "latency", name), func(r Run) float64 { return r.P50 }, false)
		if len(rate) == 0 || len(lat) == 0 {
			continue // interrupted before there was one of each
		}
		first := rate[0]
		row := Row{Peer: name, Version: first.Version, Transport: first.Transport, Conns: first.Conns,
			RateCores: first.Cores, Rps: stat(rate, rps),
			CPU:          stat(rate, func(r Run) float64 { return r.CPU }),
			LatencyCores: lat[0].Cores, P50: stat(lat, func(r Run) float64 { return r.P50 }),
			P99: stat(lat, func(r Run) float64 { return r.P99 })}
		if v := ratios(rate, base); len(v) > 0 {
			s := StatOf(v)
			row.Ratio = &s
		}
		if first.Gbps > 0 {
			s := stat(rate, func(r Run) float64 { return r.Gbps })
			row.Gbps = &s
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

var notes = []string{
	"All peers in turns, round by round; each run in new processes, with a warm-up. Medians of the " +
		"rounds, and the least and the most.",
	"Goroutine-based peers were measured pinned (client on one core, server on another) and " +
		"unpinned; the table has the better of both for each peer, told by the median.",
	"erpc over a transport is the event loop, measured by bin/erpc with its two threads pinned; " +
		"erpc-client is the same library's Client and Server, used from goroutines as the other " +
		"peers are.",
	"drpc carries one RPC at a time per connection, so it has a connection for each RPC in flight; " +
		"the others share one unless told otherwise.",
	"tcp is no library but an echo written by hand, read(2) and write(2) in a loop: no sessions, " +
		"no at-most-once across connections, no recovery, no congestion control of its own, " +
		"no timeouts. One thread of each side spins on a connection.",
	"udp is the same over the transport of erpc udp, recvfrom(2) and sendto(2) in a loop, with as " +
		"many messages in a datagram as are ready and fit into 8952 bytes: it lacks what tcp " +
		"lacks, and TCP's recovery, flow control and congestion control as well. A lost datagram " +
		"ends the run. Messages have at most 8936 bytes.",
	"Every response of the peers is checked; bin/erpc does not compare contents. The garbage " +
		"collector is set alike everywhere (GOGC 400).",
}

func of(runs []Run, bench, peer string) (list []Run) {
	for _, r := range runs {
		if r.Bench == bench && r.Peer == peer {
			list = append(list, r)
		}
	}
	return list
}

func stat(runs []Run, f func(Run) float64) Stat {
	var v []float64
	for _, r := range runs {
		v = append(v, f(r))
	}
	return StatOf(v)
}

// better returns the runs of that placement whose median of f is better.
func better(runs []Run, f func(Run) float64, high bool) (best []Run) {
	for _, cores := range []string{Pinned, Unpinned} {
		var own []Run
		for _, r := range runs {
			if r.Cores == cores {
				own = append(own, r)
			}
		}
		if len(own) == 0 {
			continue
		}
		if len(best) == 0 || (stat(own, f).Median > stat(best, f).Median) == high {
			best = own
		}
	}
	return best
}

// ratios of the rates, where both have a run in the same round.
func ratios(runs, base []Run) (v []float64) {
	for _, r := range runs {
		i := slices.IndexFunc(base, func(b Run) bool { return b.Round == r.Round })
		if i >= 0 && base[i].Rps > 0 {
			v = append(v, r.Rps/base[i].Rps)
		}
	}
	return v
}
