package rfplab

import (
	"context"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// Figure is a number of the papers and ours.
type Figure struct {
	What  string
	Model float64
	Paper float64 // 0: the papers do not say
	Unit  string
	// Inputs follows from the model's inputs without a run; 0: nothing does. Where Model equals it,
	// the figure is arithmetic.
	Inputs float64
}

// Point is a process time and what came of it: calls per second and client time per call.
type Point struct {
	Process                       time.Duration
	Fetch, Reply, Hybrid          float64
	FetchCPU, ReplyCPU, HybridCPU time.Duration
}

// Report holds everything that Figures has found.
type Report struct {
	Figures   []Figure
	Points    []Point // of process time
	Crossover time.Duration
	Cut       bool
}

// store is the store of the papers: 7 client machines of 5 threads each.
func store(seed uint64, servers int) Run {
	return Run{Params: model.Paper(), Servers: servers, Clients: 35, Gets: .95, Seed: seed,
		Config: rfp.Config{Paper: true, F: 64}}
}

// reply is ServerReply: one WRITE at a time.
func reply(r Run) Run {
	r.OneAtATime, r.Config.Mode = true, rfp.Reply
	return r
}

// batched is a run with batches; each client has a server thread of its own.
func batched(seed uint64, n int, own bool) Run {
	r := store(seed, 16)
	r.Own, r.Calls = own, 600*n
	r.Config.Batch, r.Config.F = n, rfp.DefaultF // RF-RPC section 5.1
	return r
}

// Gain is the part by which fetching must be faster to count, at the crossover (RF-RPC section
// 3.2).
const Gain = 1.1

// Figures carries the experiments out.
func Figures(ctx context.Context, seed uint64, tell func(string, float64)) (rep Report, err error) {
	run := func(r Run) (res Result) {
		if err == nil && ctx.Err() == nil {
			res, err = Simulate(r)
		}
		return res
	}
	add := func(what string, got, paper float64, unit string, inputs float64) {
		rep.Figures = append(rep.Figures, Figure{what, got, paper, unit, inputs})
	}
	tell("peaks", 0)
	jak := run(store(seed, 4))
	one := store(seed, 6)
	one.Clients = 28
	rep1 := run(reply(one))
	in, out := model.Paper().Server.InRead/1e6, model.Paper().Server.OutWrite/1e6
	add("Jakiro, 4 server threads, 35 clients", jak.Rate/1e6, 5.5, "M/s", in/2)
	add("ServerReply, one reply at a time, 6 and 28", rep1.Rate/1e6, 2.1, "M/s", out)
	add("Jakiro to ServerReply", jak.Rate/rep1.Rate, 2.6, "times", in/2/out)
	add("Jakiro, mean latency", us(jak.Mean), 5.78, "us", 35/(in/2))
	add("ServerReply, mean latency", us(rep1.Mean), 12.06, "us", 28/out)
	add("Jakiro, operations per call", jak.Trips, 2.005, "", 2)
	add("Jakiro, calls within 7 us", 100*jak.within(7*time.Microsecond), 99, "%", 0)
	add("ServerReply, calls within 7 us", 100*rep1.within(7*time.Microsecond), 45, "%", 0)
	values(run, seed, add)
	tell("replies that wait for nothing", .2)
	pipelined(run, seed, add)
	tell("batches", .3)
	batches(run, seed, jak, add)
	tell("the rest", .4)
	for _, part := range []func(func(Run) Result, uint64, adder){threads, skewed, links, few} {
		part(run, seed, add)
	}
	for i, p := range []float64{0, 2, 4, 5, 6, 6.5, 7, 8, 10, 15} {
		tell("process times", .5+float64(i)/20)
		rep.Points = append(rep.Points, point(run, seed, time.Duration(p*1000)))
	}
	rep.Crossover = crossover(rep.Points)
	add("crossover of process time", us(rep.Crossover), 7, "us", 0)
	rep.Cut = ctx.Err() != nil
	return rep, err
}

// crossover is the process time from which on fetching gains less than Gain, between two points by
// a straight line; 0: there is none.
func crossover(list []Point) time.Duration {
	lead := func(p Point) float64 { return p.Fetch/(Gain*p.Reply) - 1 }
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		if lead(a) >= 0 && lead(b) < 0 {
			part := lead(a) / (lead(a) - lead(b))
			return a.Process + time.Duration(part*float64(b.Process-a.Process))
		}
	}
	return 0
}

// within is the part of the messages that took no longer.
func (r *Result) within(d time.Duration) float64 {
	i, _ := slices.BinarySearch(r.Latencies, d+1)
	return float64(i) / float64(max(1, len(r.Latencies)))
}

func us(d time.Duration) float64 { return float64(d) / 1e3 }

// values is the value sizes of RFP's figures 7 and 8, in terms of payload that F covers.
func values(run func(Run) Result, seed uint64, add adder) {
	in := model.Paper().Server.InRead / 1e6
	for _, v := range []struct {
		f, size       int
		paper, inputs float64
	}{{36, 32, 5.5, in / 2}, {36, 64, 3.7, in / 3}, {36, 256, 3.7, in / 3}, {36, 512, 3.7, in / 3},
		{132, 32, 5.5, in / 2}, {132, 128, 5.5, in / 2}, {36, 1024, 3.1, 0}} {
		r := store(seed, 4)
		r.Value = v.size
		r.Config.F = v.f - 4 + rfp.Overhead + rfp.Entry + 4
		name := "values of " + itoa(v.size) + " bytes, F = " + itoa(v.f)
		add(name, run(r).Rate/1e6, v.paper, "M/s", v.inputs)
	}
	for _, v := range []struct{ gets, theta float64 }{{.5, 0}, {.05, 0}, {.95, .99}} {
		r := store(seed, 4)
		r.Gets, r.Theta = v.gets, v.theta
		name := itoa(int(100*v.gets)) + " % GETs"
		if v.theta > 0 {
			name += ", Zipf .99"
		}
		add(name, run(r).Rate/1e6, 5.5, "M/s", in/2)
	}
}

// pipelined compares with replies that are not waited for, as the review asks.
func pipelined(run func(Run) Result, seed uint64, add adder) {
	r := store(seed, 16)
	r.Params, r.Config.Mode = model.PipelinedReply(), rfp.Reply
	add("pipelined replies at 20 M/s, the paper's in-bound rate", run(r).Rate/1e6, 0, "M/s",
		r.Params.Server.InWrite/1e6)
	r.Params, r.Outstanding = model.Pipelined(), 8
	add("pipelined replies, all adapters at HERD's rates", run(r).Rate/1e6, 0, "M/s",
		r.Params.Server.OutWrite/1e6)
	r.Config = rfp.Config{F: 64, Mode: rfp.Fetch}
	add("fetching, all adapters at HERD's rates", run(r).Rate/1e6, 0, "M/s", 0)
}

// batches is RF-RPC's figures 13 and 14.
func batches(run func(Run) Result, seed uint64, jak Result, add adder) {
	for _, own := range []bool{true, false} {
		name, best, paper := "clients with a server thread each: ", 0.0, 1.0
		if !own {
			name, paper = "batches to a server thread drawn at random: ", 0
		}
		for _, n := range []int{4, 24, 64, 96} {
			res := run(batched(seed, n, own))
			best = max(best, res.Rate)
			switch {
			case n == 4:
				add(name+"batch 4, rate to unbatched", res.Rate/jak.Rate, 3.9*paper, "times", 0)
				add(name+"batch 4, latency to unbatched", float64(res.Mean)/float64(jak.Mean),
					1.08*paper, "times", 0)
			case n == 24:
				add(name+"batch 24", res.Rate/1e6, 45.8*paper, "M/s", 0)
			}
		}
		add(name+"peak to unbatched", best/jak.Rate, 11.3*paper, "times", 0)
	}
}

// point measures the modes at a process time.
func point(run func(Run) Result, seed uint64, process time.Duration) Point {
	r := store(seed, 16)
	r.Own, r.Process, r.Calls = true, process, 4000
	f := r
	f.Config.Mode = rfp.Fetch
	h := r
	h.OneAtATime, h.Config = true, rfp.Config{F: 64}
	a, b, c := run(f), run(reply(r)), run(h)
	return Point{process, a.Rate, b.Rate, c.Rate, a.ClientCPU, b.ClientCPU, c.ClientCPU}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}
