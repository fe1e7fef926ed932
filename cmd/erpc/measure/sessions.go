package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// SessionsCmd is the subcommand bench sessions.
type SessionsCmd struct {
	LoadFlags
	Counts   []int         `default:"1,8,100,1000,5000,20000" help:"Sessions per thread to measure; default ${default}." placeholder:"N,N"`
	Base     int           `default:"8" help:"Sessions of the baseline; default ${default}." placeholder:"N"`
	Duration time.Duration `default:"20s" help:"How long to measure, all counts and rounds together; default ${default}." placeholder:"TIME"`
	Rounds   int           `default:"5" help:"Turns of each count; medians are reported; default ${default}." placeholder:"N"`
	Size     int           `default:"32" help:"Bytes in a request; default ${default}." placeholder:"BYTES"`
	RespSize int           `default:"32" help:"Bytes in a response; default ${default}." placeholder:"BYTES"`
	Window   int           `default:"60" help:"RPCs in flight per thread; default ${default}." placeholder:"N"`
	Batch    int           `default:"3" help:"RPCs issued together; default ${default}." placeholder:"N"`
}

// Help is shown by --help.
func (SessionsCmd) Help() string {
	return `Each RPC goes to a session chosen at random, so that with many sessions most of
them are cold. Each count is measured in turns with a baseline of few sessions. Memory
is that of one end of a session that has been used and is idle.

Examples:
  erpc bench sessions
  erpc bench sessions --counts 8,20000 --rounds 9 --json`
}

// sessionsRow is the result with one number of sessions.
type sessionsRow struct {
	Sessions int     `json:"sessions"` // per thread
	Rps      float64 `json:"rps"`
	Ratio    float64 `json:"ratio"` // to the baseline, median of the rounds
	RatioMin float64 `json:"ratio_min"`
	RatioMax float64 `json:"ratio_max"`
	Client   float64 `json:"client_bytes_per_session,omitempty"`
	Server   float64 `json:"server_bytes_per_session,omitempty"`
}

// SessionsResult is printed by bench sessions with --json.
type SessionsResult struct {
	Bench       string        `json:"bench"`
	Transport   string        `json:"transport"`
	CC          string        `json:"cc"`
	Size        int           `json:"size"`
	RespSize    int           `json:"resp_size"`
	MTU         int           `json:"mtu"`
	Window      int           `json:"window"`
	Batch       int           `json:"batch"`
	Threads     int           `json:"threads"`
	Base        int           `json:"base_sessions"`
	Rps         float64       `json:"rps"` // of the baseline
	Rounds      int           `json:"rounds"`
	Rpcs        uint64        `json:"rpcs"`
	Retransmits uint64        `json:"retransmits"`
	Errors      uint64        `json:"errors"`
	Rows        []sessionsRow `json:"rows"`
	Interrupted bool          `json:"interrupted,omitempty"`
	Failed      string        `json:"failed,omitempty"` // why it ended early
}

// manySessions is from where on memory per session is told: below it other things weigh more.
const manySessions = 1000

// Run implements the subcommand.
func (c *SessionsCmd) Run(e *Env) error {
	flags := BenchFlags{LoadFlags: c.LoadFlags, Duration: c.Duration, Rounds: c.Rounds}
	flags.Sessions, flags.slowHeartbeat = c.Base, true
	b := bench{name: "sessions", flags: &flags,
		shape: Shape{Size: c.Size, RespSize: c.RespSize, Window: c.Window, Batch: c.Batch, Random: true}}
	if c.Sessions != 0 {
		return cli.Usagef("--sessions %d: give --counts and --base instead", c.Sessions)
	}
	if err := b.check(); err != nil {
		return err
	}
	var variants []Variant
	for _, n := range c.Counts {
		if n < 1 || n > 32000 {
			return cli.Usagef("--counts %d: want 1 to 32000", n)
		}
		variants = append(variants, Variant{Name: fmt.Sprint(n), Set: func(*NetFlags) {}, Sessions: n})
	}
	slices.SortStableFunc(variants, func(a, b Variant) int { return a.Sessions - b.Sessions })
	comp, failed, err := b.compared(e, variants)
	if comp == nil {
		return err
	}
	res := sessionsOf(comp)
	res.Interrupted, res.Failed = e.Ctx.Err() != nil, failed
	return errors.Join(err, res.print(e.Out, c.JSON))
}

// sessionsOf sums up.
func sessionsOf(c *comparison) *SessionsResult {
	base := c.arms[0].bench
	b := base.result()
	r := &SessionsResult{
		Bench: b.Bench, Transport: b.Transport, CC: b.CC, Size: b.Size, RespSize: b.RespSize, MTU: b.MTU,
		Window: b.Window, Batch: b.Batch, Threads: b.Threads, Base: b.Sessions, Rps: b.Rps,
	}
	for i, a := range c.arms {
		sum := a.bench.result()
		r.Rpcs, r.Retransmits, r.Errors = r.Rpcs+sum.Rpcs, r.Retransmits+sum.Retransmits,
			r.Errors+sum.Errors
		if i == 0 {
			continue
		}
		n := a.bench.shape.Sessions
		s := SpreadOf(a.ratios)
		row := sessionsRow{Sessions: n, Rps: medianOf(a.bench.rounds, rateOf), Ratio: s.Median,
			RatioMin: s.Min, RatioMax: s.Max}
		if all := float64(n * b.Threads); n >= manySessions {
			row.Client, row.Server = float64(a.memory.client.total())/all,
				float64(a.memory.server.total())/all
		}
		r.Rows = append(r.Rows, row)
		r.Rounds = len(a.ratios)
	}
	return r
}

// print writes the result for scripts or for people.
func (r *SessionsResult) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	fmt.Fprintf(w, "%s over %s, requests %s, responses %s, %d in flight in batches of %d, %d "+
		"thread(s), %s\n",
		r.Bench, r.Transport, cli.BytesText(r.Size), cli.BytesText(
			r.RespSize), r.Window, r.Batch, r.Threads, r.CC)
	fmt.Fprintf(w, "baseline %d sessions: %s/s; medians of %d rounds\n\n", r.Base,
		cli.CountText(r.Rps), r.Rounds)
	t := cli.NewTable(w)
	fmt.Fprintln(t, "sessions\trate\tratio (min to max)\tmemory of a client's end\tof a server's")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%d\t%s/s\t%.3f (%.3f to %.3f)\t", row.Sessions, cli.CountText(row.Rps), row.Ratio,
			row.RatioMin, row.RatioMax)
		if row.Client != 0 {
			fmt.Fprintf(t, "%.0f B\t%.0f B", row.Client, row.Server)
		}
		fmt.Fprintln(t)
	}
	if r.Interrupted {
		fmt.Fprintln(t, "interrupted: measured so far")
	}
	if r.Failed != "" {
		fmt.Fprintf(t, "measured until it failed: %s\n", r.Failed)
	}
	return t.Flush()
}

// footprint is memory in use, bytes.
type footprint struct {
	Heap    int64 `json:"heap_bytes"`
	Buffers int64 `json:"buffer_bytes"` // message buffers, outside the heap
}

func (f footprint) total() int64 { return f.Heap + f.Buffers }

func (f footprint) less(g footprint) footprint {
	return footprint{f.Heap - g.Heap, f.Buffers - g.Buffers}
}

// bothFootprints is that of a client process and its server.
type bothFootprints struct{ client, server footprint }

func (f bothFootprints) less(g bothFootprints) bothFootprints {
	return bothFootprints{f.client.less(g.client), f.server.less(g.server)}
}

// heapInUse returns the bytes of live objects on the heap.
func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// footprint measures both processes; the server's part is 0 if it does not answer.
func (t *team) footprint() (f bothFootprints) {
	f.client.Heap = heapInUse()
	for _, w := range t.workers {
		f.client.Buffers += w.ep.rpc.Stats().Memory
		_ = w.do(func(w *worker) error {
			rep, err := w.ask(control{Op: "memory"})
			f.server.Heap = rep.Memory.Heap // of the process: the last thread's word is that of all
			f.server.Buffers += rep.Memory.Buffers
			return err
		})
	}
	return f
}
