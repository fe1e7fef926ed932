package rfplab

import (
	"context"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// Curve is a figure of lines: of the model, and of the papers where they name points.
type Curve struct {
	Title, X, Y string
	LogX        bool
	Lines       []Line
	Cut         bool
}

// Line is a line of a curve.
type Line struct {
	Name   string
	Paper  bool
	Points [][2]float64
}

func (c *Curve) add(line string, paper bool, x, y float64) {
	for i := range c.Lines {
		if c.Lines[i].Name == line {
			c.Lines[i].Points = append(c.Lines[i].Points, [2]float64{x, y})
			return
		}
	}
	c.Lines = append(c.Lines, Line{line, paper, [][2]float64{{x, y}}})
}

// CurveNames are those that Curves knows.
var CurveNames = []string{"sizes", "values", "batches", "latency", "designs", "optimisations",
	"roce"}

// Curves carries one experiment out.
func Curves(ctx context.Context, seed uint64, name string, tell func(string, float64)) (c Curve,
	err error) {
	run := func(r Run) (res Result) {
		if err == nil && ctx.Err() == nil {
			var e error
			if res, e = Simulate(r); e != nil {
				err = e
			}
		}
		return res
	}
	tell(name, 0)
	switch name {
	case "sizes":
		err = c.sizes()
	case "values":
		c.values(run, seed, tell)
	case "batches":
		c.batches(run, seed, tell)
	case "latency":
		c.latency(run, seed)
	case "designs":
		err = c.designs(run, seed, tell)
	case "optimisations":
		err = c.optimisations()
	case "roce":
		c.roce(run, seed)
	default:
		return c, fmt.Errorf("rfplab: no figure %q", name)
	}
	c.Cut = ctx.Err() != nil
	return c, err
}

// sizes is figure 1 of RFP: operations that an adapter serves and issues, by size.
func (c *Curve) sizes() error {
	*c = Curve{Title: "Operations of a server's adapter by size", X: "bytes", Y: "M/s", LogX: true}
	wait := Verbs{Params: model.Paper(), Machines: 7, Window: 5}
	free := Verbs{Params: model.Pipelined(), Machines: 7, Window: 80}
	one, many := wait, free
	one.Out, one.Verb, one.Window = true, WRITE, 1
	many.Out, many.Verb, many.Window = true, WRITE, 16
	for size := 8; size <= 8192; size *= 2 {
		for _, k := range []struct {
			name string
			v    Verbs
		}{
			{"in-bound READs", wait}, {"out-bound WRITEs, each waited for", one},
			{"in-bound READs, 16 outstanding", free}, {"out-bound WRITEs, 16 outstanding", many},
		} {
			k.v.Bytes = size
			rate, err := k.v.Rate()
			if err != nil {
				return err
			}
			c.add(k.name, false, float64(size), rate/1e6)
		}
	}
	c.add("RFP: in-bound READs", true, 32, 11.26)
	c.add("RFP: out-bound WRITEs", true, 32, 2.11)
	return nil
}

// values is figure 8 of RFP: rates by size of values, for sizes of the first READ.
func (c *Curve) values(run func(Run) Result, seed uint64, tell func(string, float64)) {
	*c = Curve{Title: "Jakiro by size of values, F in bytes", X: "bytes of a value", Y: "M/s",
		LogX: true}
	sizes := []int{32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}
	for i, size := range sizes {
		tell("values", float64(i)/float64(len(sizes)))
		for _, f := range []int{36, 132, 256, 512, 1024} {
			r := store(seed, 4)
			r.Value, r.Calls, r.Config.F = size, 6000, f-4+rfp.Overhead+rfp.Entry+4
			r.Config.ReplyAbove = rfp.MaxBody
			c.add(fmt.Sprintf("F = %d", f), false, float64(size), run(r).Rate/1e6)
		}
		r := reply(store(seed, 4))
		r.Value, r.Calls = size, 6000
		c.add("reply, one at a time", false, float64(size), run(r).Rate/1e6)
	}
	for _, p := range [][2]float64{{32, 5.5}, {64, 3.7}, {256, 3.7}, {512, 3.7}, {1024, 3.1}} {
		c.add("RFP, F = 36", true, p[0], p[1])
	}
	for _, p := range [][2]float64{{32, 5.5}, {128, 5.5}} {
		c.add("RFP, F = 132", true, p[0], p[1])
	}
}

// batches is figures 13 and 14 of RF-RPC: rates by calls in a message. Each client has a server
// thread of its own.
func (c *Curve) batches(run func(Run) Result, seed uint64, tell func(string, float64)) {
	*c = Curve{Title: "Calls by size of batches, 16 server threads", X: "calls in a message", Y: "M/s"}
	list := []int{1, 2, 4, 8, 16, 24, 32, 64, 96}
	for i, n := range list {
		tell("batches", float64(i)/float64(len(list)))
		f := batched(seed, n, true)
		f.Calls = 300 * max(n, 8)
		sync := reply(f)
		free := f
		free.Params, free.Config.Mode = model.PipelinedReply(), rfp.Reply
		c.add("fetch", false, float64(n), run(f).Rate/1e6)
		c.add("reply, one at a time", false, float64(n), run(sync).Rate/1e6)
		c.add("reply, not waited for", false, float64(n), run(free).Rate/1e6)
	}
	for _, p := range [][2]float64{{1, 5.5}, {4, 21.5}, {24, 45.8}, {96, 62.7}} {
		c.add("RF-RPC: fetch", true, p[0], p[1])
	}
}

// latency is the distribution of latency at the peaks: figure 6 of RFP.
func (c *Curve) latency(run func(Run) Result, seed uint64) {
	*c = Curve{Title: "Calls that end within a time, 35 clients", X: "us", Y: "share"}
	one := store(seed, 6)
	one.Clients = 28
	free := store(seed, 6)
	free.Params, free.Config.Mode = model.PipelinedReply(), rfp.Reply
	for _, k := range []struct {
		name string
		res  Result
	}{{"Jakiro", run(store(seed, 4))}, {"reply, one at a time", run(reply(one))},
		{"reply, not waited for", run(free)}} {
		n := len(k.res.Latencies)
		for q := 1; q <= 99 && n > 0; q++ {
			at := k.res.Latencies[n*q/100]
			c.add(k.name, false, float64(at)/1e3, float64(q)/100)
		}
	}
	c.add("RFP: Jakiro", true, 7, .99)
	c.add("RFP: ServerReply", true, 7, .45)
}

// designs compares designs by process time, each on adapters that wait for nothing but where the
// name says so.
func (c *Curve) designs(run func(Run) Result, seed uint64, tell func(string, float64)) error {
	*c = Curve{Title: "Designs by process time, 6 server threads, 35 clients of 4 calls",
		X: "process time, us", Y: "M/s"}
	for i, us := range []float64{0, .2, .5, 1, 2, 4, 8} {
		tell("designs", float64(i)/7)
		process := time.Duration(us * 1e3)
		base := store(seed, 6)
		base.Process, base.Outstanding, base.Calls = process, 4, 5000
		wait := base
		wait.Config.Mode = rfp.Fetch
		one := reply(base)
		fetch, rep, herd, erpc := base, base, base, base
		fetch.Params = model.Pipelined()
		fetch.Config = rfp.Config{F: 64, Mode: rfp.Fetch, First: rfp.Behind}
		rep.Params, rep.Config = model.Pipelined(), rfp.Config{Mode: rfp.Reply}
		herd.Params, herd.Config, herd.Design, herd.Prefetch = model.Pipelined(), rep.Config, HERD, true
		erpc.Params, erpc.Config, erpc.Design = model.Pipelined(), rep.Config, ERPC
		for _, k := range []struct {
			name string
			r    Run
		}{{"fetch, adapters that wait", wait}, {"reply, one at a time, adapters that wait", one},
			{"fetch", fetch}, {"reply", rep}, {"HERD: WRITE and datagram, prefetches", herd},
			{"eRPC: datagrams", erpc}} {
			c.add(k.name, false, us, run(k.r).Rate/1e6)
		}
	}
	for _, k := range []struct {
		name string
		p    model.Params
	}{{"bypass, adapters that wait", model.Paper()}, {"bypass", model.Pipelined()}} {
		b, err := Bypass(k.p, 35, 4, 4000, seed)
		if err != nil {
			return err
		}
		for _, us := range []float64{0, 8} { // no processor of the server takes part
			c.add(k.name, false, us, b.Rate/1e6)
		}
	}
	c.add("HERD, its paper", true, 0, 26)
	c.add("HERD, by RF-RPC's authors", true, 0, 8.8)
	return nil
}
