package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// Result is printed by a measurement with --json. Zero fields do not apply.
type Result struct {
	Bench       string   `json:"bench"`
	Transport   string   `json:"transport"`
	Way         string   `json:"way,omitempty"`  // what transport auto chose: shm or udp
	Link        string   `json:"link,omitempty"` // veth: client and server in namespaces of their own
	Size        int      `json:"size"`
	RespSize    int      `json:"resp_size"`
	MTU         int      `json:"mtu"`
	Window      int      `json:"window"`
	Batch       int      `json:"batch,omitempty"`
	Threads     int      `json:"threads"`
	Sessions    int      `json:"sessions"`
	Credits     int      `json:"credits"`
	Symmetric   bool     `json:"symmetric,omitempty"`
	CC          string   `json:"cc"`
	LinkRate    float64  `json:"link_rate,omitempty"` // as given, bit/s
	Off         []string `json:"off,omitempty"`       // optimisations switched off
	Duration    float64  `json:"duration_s"`
	Rpcs        uint64   `json:"rpcs"`
	Rps         float64  `json:"rps"`
	Mean        float64  `json:"mean_us,omitempty"`
	P50         float64  `json:"p50_us,omitempty"`
	P99         float64  `json:"p99_us,omitempty"`
	P999        float64  `json:"p999_us,omitempty"`
	Max         float64  `json:"max_us,omitempty"`
	Gbps        float64  `json:"gbps,omitempty"`
	CPU         float64  `json:"cpu_ns_per_rpc,omitempty"`
	Retransmits uint64   `json:"retransmits"`
	Errors      uint64   `json:"errors"`
	RawP50      float64  `json:"raw_p50_us,omitempty"`
	RawPlainP50 float64  `json:"raw_plain_p50_us,omitempty"`
	RawRps      float64  `json:"raw_rps,omitempty"`
	RawGbps     float64  `json:"raw_gbps,omitempty"`
	Ratio       float64  `json:"ratio_to_raw,omitempty"`
	RawP99      float64  `json:"raw_p99_us,omitempty"`
	RatioP99    float64  `json:"ratio_to_raw_p99,omitempty"`
	Cores       float64  `json:"core_round_trip_ns,omitempty"`
	Versus      string   `json:"versus,omitempty"` // the other side
	VersusRps   float64  `json:"versus_rps,omitempty"`
	// median of rps to versus_rps, side by side
	VersusRatio float64 `json:"ratio_to_versus,omitempty"`
	VersusMin   float64 `json:"ratio_to_versus_min,omitempty"`
	VersusMax   float64 `json:"ratio_to_versus_max,omitempty"`
	VersusCost  float64 `json:"versus_cost_percent,omitempty"` // of the rate; below 0: it was faster
	versusText  string
	Rounds      int    `json:"rounds,omitempty"`
	Seed        uint64 `json:"seed,omitempty"`
	Interrupted bool   `json:"interrupted,omitempty"`
	Failed      string `json:"failed,omitempty"` // why it ended early
}

// overText says what the bench ran over.
func (r *Result) overText() string {
	switch {
	case r.Link != "":
		return r.Transport + " across " + r.Link
	case r.Way != "":
		return r.Transport + " (" + r.Way + ")"
	}
	return r.Transport
}

// print writes the result for scripts or for people.
func (r *Result) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	t := cli.NewTable(w)
	row := func(show bool, name, format string, args ...any) {
		if show {
			fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
		}
	}
	row(true, "bench", "%s over %s, requests %s, responses %s, packets up to %d B", r.Bench,
		r.overText(), cli.BytesText(r.Size), cli.BytesText(r.RespSize), r.MTU)
	row(true, "load", "%d in flight per thread, %d thread(s), %d session(s) each, %d credits",
		r.Window, r.Threads, r.Sessions, r.Credits)
	row(r.Symmetric, "", "every thread is client and server")
	row(true, "congestion", "%s", CCText(r.CC, r.LinkRate))
	row(len(r.Off) > 0, "switches", "%s", strings.Join(r.Off, ", "))
	row(r.Cores > 0, "cores", "a cache line's round trip between client and server takes %.0f ns: %s",
		r.Cores, nearText(r.Cores))
	row(true, "ran", "%.2f s, %d RPCs", r.Duration, r.Rpcs)
	row(true, "rate", "%s/s", cli.CountText(r.Rps))
	row(r.P50 > 0, "latency", "p50 %.2f us, p99 %.2f, p99.9 %.2f, max %.1f, mean %.2f", r.P50, r.P99,
		r.P999, r.Max, r.Mean)
	row(r.Gbps > 0, "goodput", "%.2f Gbit/s", r.Gbps)
	row(r.CPU > 0, "CPU", "%.0f ns per RPC, client and server", r.CPU)
	row(r.Retransmits+r.Errors > 0, "trouble", "%d packets sent again, %d errors",
		r.Retransmits, r.Errors)
	row(r.RawP50 > 0, "raw", "p50 %.2f us, p99 %.2f; latency is %.2f times raw, p99 %.2f times",
		r.RawP50, r.RawP99, r.Ratio, r.RatioP99)
	row(r.RawRps > 0, "raw", "%s packets/s echoed; the RPC rate is %.2f of it",
		cli.CountText(r.RawRps), r.Ratio)
	row(r.RawGbps > 0, "raw", "%.2f Gbit/s one way; RPC goodput is %.2f of it", r.RawGbps, r.Ratio)
	row(r.Versus != "", "versus", "%s/s %s in %d rounds)", cli.CountText(r.VersusRps), r.versusText,
		r.Rounds)
	row(r.Seed > 0, "faults", "injected, seed %d", r.Seed)
	row(r.Interrupted, "note", "interrupted: measured so far")
	row(r.Failed != "", "note", "measured until it failed: %s", r.Failed)
	return t.Flush()
}

// nearText says what a round trip between two cores means.
func nearText(ns float64) string {
	if ns < nearCores {
		return "near, they share a cache"
	}
	return "far, they share none"
}

// CCText names the congestion control and the link rate that was given, if any.
func CCText(cc string, linkRate float64) string {
	if linkRate > 0 {
		cc += fmt.Sprintf(", link of %.4g Gbit/s", linkRate/1e9)
	}
	return cc
}
