package rfplab

import (
	"context"

	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// herd carries the experiments of HERD's paper out. The first error ends them.
type herd struct {
	ctx context.Context
	err error
}

// verbs returns millions of operations per second, 32 bytes and 16 machines unless v says more.
func (h *herd) verbs(v Verbs) float64 {
	if h.err != nil || h.ctx.Err() != nil {
		return 0
	}
	v.Params = model.Apt()
	if v.Bytes == 0 {
		v.Bytes = 32
	}
	if v.Machines == 0 {
		v.Machines = 16
	}
	if v.Window == 0 {
		v.Window = 32
	}
	rate, err := v.Rate()
	h.err = err
	return rate / 1e6
}

// echo carries calls out. As it comes from base they are HERD's.
func (h *herd) echo(e Echo) EchoResult {
	if h.err != nil || h.ctx.Err() != nil {
		return EchoResult{}
	}
	res, err := e.Run()
	h.err = err
	return res
}

// base is HERD's set-up (section 5.1): 51 clients of 4 calls on 17 machines, 6 server threads, GETs
// of 16 bytes for values of 32, which a request leaves prefetched.
func base(seed uint64) Echo {
	p := model.Apt()
	return Echo{Params: p, Clients: 51, Machines: 17, Servers: 6, Window: 4, Request: 16, Response: 32,
		Sends: [2]bool{false, true}, Work: 2 * p.Touch, Seed: seed}
}

// bare is an echo without a store that nothing but adapters bounds: figure 5.
func bare(seed uint64, bytes int, sends ...bool) Echo {
	e := base(seed)
	e.Clients, e.Servers, e.Window = 64, 16, 8
	e.Request, e.Response, e.Work, e.Sends = bytes, bytes, 0, [2]bool(sends)
	return e
}

// HerdReport holds what Herd has found.
type HerdReport struct {
	Figures []Figure
	Cut     bool
}

// Herd carries out the experiments of HERD's paper whose figures its text names.
func Herd(ctx context.Context, seed uint64, tell func(string, float64)) (HerdReport, error) {
	h := &herd{ctx: ctx}
	var rep HerdReport
	add := func(what string, got, paper float64, unit string, inputs float64) {
		rep.Figures = append(rep.Figures, Figure{what, got, paper, unit, inputs})
	}
	for i, part := range []func(uint64, adder){h.single, h.echoes, h.connections, h.store,
		h.clients} {
		tell("HERD", float64(i)/5)
		part(seed, add)
	}
	rep.Cut = ctx.Err() != nil
	return rep, h.err
}

// adder takes a figure: ours, the paper's, its unit, and what the inputs say by themselves.
type adder = func(what string, got, paper float64, unit string, inputs float64)

// single is figures 2 to 4: single verbs.
func (h *herd) single(seed uint64, add adder) {
	nic := model.Apt().Server
	read := h.latency(READ, 64)
	one := bare(seed, 64, false, false)
	one.Clients, one.Window, one.Servers = 1, 1, 1
	add("latency of an ECHO of 64 bytes to that of a READ", us(h.echo(one).Mean)/read, 1, "times", 0)
	add("in-bound WRITEs of 32 bytes", h.verbs(Verbs{Verb: WRITE}), 35, "M/s", nic.InWrite/1e6)
	add("in-bound WRITEs of 128 bytes", h.verbs(Verbs{Verb: WRITE, Bytes: 128}), 35, "M/s", 0)
	add("in-bound READs of 32 bytes", h.verbs(Verbs{}), 26, "M/s", nic.InRead/1e6)
	add("out-bound READs of 32 bytes", h.verbs(Verbs{Out: true}), 22, "M/s", nic.OutRead/1e6)
	add("out-bound WRITEs of 8 bytes", h.verbs(Verbs{Out: true, Verb: WRITE, Bytes: 8}), 35, "M/s",
		nic.OutWrite/1e6)
	add("largest out-bound WRITE at that rate", h.largest(func(n int) float64 {
		return h.verbs(Verbs{Out: true, Verb: WRITE, Bytes: n})
	}, 8), 28, "bytes", 0)
}

// latency is that of one operation of a client that makes no other, in us.
func (h *herd) latency(verb Verb, bytes int) float64 {
	return 1 / h.verbs(Verbs{Verb: verb, Bytes: bytes, Machines: 1, Window: 1})
}

// largest returns the greatest size with the rate of the first one, 1 % less at most.
func (h *herd) largest(rate func(int) float64, first int) float64 {
	top := rate(first)
	n := first
	for n < 512 && h.err == nil && rate(n+1) > .99*top {
		n++
	}
	return float64(n)
}

// echoes is figure 5.
func (h *herd) echoes(seed uint64, add adder) {
	run := func(bytes int, sends ...bool) float64 {
		return h.echo(bare(seed, bytes, sends...)).Rate / 1e6
	}
	nic := model.Apt().Server
	lines := nic.PIO / 1e6
	add("echoes of 32 bytes: WRITE, WRITE", run(32, false, false), 26, "M/s", lines/2)
	add("echoes of 32 bytes: WRITE, SEND", run(32, false, true), 26, "M/s", lines/2)
	add("echoes of 32 bytes: SEND, SEND", run(32, true, true), 21, "M/s", nic.InSend/1e6)
	add("echoes of 16 bytes: WRITE, WRITE", run(16, false, false), 30, "M/s", nic.InWrite/1e6)
}

// connections is figure 6, and the experiment of section 3.3 with many clients of one process.
func (h *herd) connections(_ uint64, add adder) {
	all := Verbs{Verb: WRITE, Links: 16, Window: 4}
	out, sends, many := all, all, all
	out.Out, sends.Out, sends.Verb = true, true, SEND
	many.Links, many.Window = 100, 2
	add("out-bound SENDs of 32 bytes to 256 clients", h.verbs(sends), 0, "M/s", 0)
	add("in-bound WRITEs over 256 connections", h.verbs(all), 0, "M/s", 0)
	add("out-bound WRITEs over 256 connections", h.verbs(out), .21*35, "M/s", 0)
	add("in-bound WRITEs over 1600 connections", h.verbs(many), 30, "M/s", 0)
}

// store is figures 9 to 11, 13: the store, and the READs that others need.
func (h *herd) store(seed uint64, add adder) {
	six := h.echo(base(seed)).Rate / 1e6
	add("HERD, values of 32 bytes", six, 26, "M/s", model.Apt().Server.PIO/2e6)
	small := h.verbs(Verbs{})
	add("Pilaf's GET, 2.6 READs of 32 bytes", small/2.6, 9.9, "M/s", small/2.6)
	add("FaRM's GET, a READ of 6 items", h.verbs(Verbs{Bytes: 6 * 48}), 17.2, "M/s", 0)
	slots := h.verbs(Verbs{Bytes: 6 * (16 + pointer)})
	add("FaRM's GET, a READ of 6 slots and one of a value", 1/(1/slots+1/small), 11.4, "M/s", 0)
	add("HERD, largest value at its peak", h.largest(func(n int) float64 {
		e := base(seed)
		e.Response = n
		return h.echo(e).Rate / 1e6
	}, 56), 60, "bytes", 0)
	few := base(seed)
	few.Clients = 36
	add("HERD, mean latency of 36 clients", us(h.echo(few).Mean), 5, "us", 36*4/six)
	cores := func(n int) float64 {
		e := base(seed)
		e.Servers = n
		return h.echo(e).Rate / 1e6
	}
	p := model.Apt()
	add("HERD, 1 core", cores(1), 6.3, "M/s", 1e3/float64(p.Post+2*p.Touch))
	add("HERD, 5 cores to 6", cores(5)/six, .95, "times", 0)
}

// pointer is the size of one in FaRM's slots, which HERD's paper does not say.
const pointer = 8

// clients is figure 12.
func (h *herd) clients(seed uint64, add adder) {
	top := h.many(seed, 4, 200)
	last, n := top, 220
	for was := top; n <= 500 && h.err == nil; n += 20 {
		if last = h.many(seed, 4, n); last < .99*top {
			at := float64(n-20) + 20*(was-.99*top)/(was-last)
			add("HERD, clients at 1 % below its peak", at, 260, "", float64(model.Apt().Server.Contexts))
			break
		}
		was = last
	}
	add("HERD, 500 clients", h.many(seed, 4, 500), 0, "M/s", 0)
}

// many is the rate of so many clients on 186 machines.
func (h *herd) many(seed uint64, window, clients int) float64 {
	e := base(seed)
	e.Clients, e.Machines, e.Window = clients, 186, window
	return h.echo(e).Rate / 1e6
}

// HerdCurveNames are those that HerdCurves knows.
var HerdCurveNames = []string{"latency", "inbound", "outbound", "values", "clients", "cores"}

// HerdCurves carries one experiment out, as curves.
func HerdCurves(ctx context.Context, seed uint64, name string, tell func(string, float64)) (Curve,
	error) {
	h := &herd{ctx: ctx}
	tell(name, 0)
	var c Curve
	switch name {
	case "latency":
		c = h.latencies(seed)
	case "inbound", "outbound":
		c = h.sizes(name == "outbound")
	case "values":
		c = h.values(seed)
	case "clients":
		c = h.clientCurve(seed)
	case "cores":
		c = h.coreCurve(seed)
	}
	c.Cut = ctx.Err() != nil
	return c, h.err
}

// latencies is figure 2.
func (h *herd) latencies(seed uint64) Curve {
	c := Curve{Title: "Latency by size, one client", X: "bytes", Y: "us", LogX: true}
	for n := 8; n <= 1024; n *= 2 {
		c.add("READ", false, float64(n), h.latency(READ, n))
		c.add("WRITE, inlined to 256 bytes", false, float64(n), h.latency(WRITE, n))
		if n <= 256 {
			e := bare(seed, n, false, false)
			e.Clients, e.Window, e.Servers = 1, 1, 1
			c.add("ECHO by WRITEs", false, float64(n), us(h.echo(e).Mean))
		}
	}
	return c
}

// sizes is figures 3 and 4. Nothing says how fast adapters issue what is not inlined, so figure 4's
// curves end where inlining does.
func (h *herd) sizes(out bool) Curve {
	c := Curve{Title: "Operations that a server's adapter serves, by size", X: "bytes", Y: "M/s",
		LogX: true}
	most := 1024
	if out {
		c.Title, most = "Operations that a server's adapter issues, by size", 256
	}
	for n := 8; n <= most; n += max(4, n/8) {
		c.add("READ", false, float64(n), h.verbs(Verbs{Out: out, Bytes: n}))
		c.add("WRITE", false, float64(n), h.verbs(Verbs{Out: out, Verb: WRITE, Bytes: n}))
		if out {
			c.add("SEND", false, float64(n), h.verbs(Verbs{Out: out, Verb: SEND, Bytes: n}))
		}
	}
	return c
}

// values is figure 10, for GETs.
func (h *herd) values(seed uint64) Curve {
	c := Curve{Title: "GETs by size of values", X: "bytes", Y: "M/s", LogX: true}
	small := h.verbs(Verbs{})
	for n := 8; n <= 1024; n += max(4, n/8) {
		x := float64(n)
		if n <= 256 {
			e := base(seed)
			e.Response = n
			c.add("HERD, inlined", false, x, h.echo(e).Rate/1e6)
		}
		value := h.verbs(Verbs{Bytes: n})
		c.add("Pilaf's READs", false, x, 1/(1.6/small+1/value))
		c.add("FaRM's READ", false, x, h.verbs(Verbs{Bytes: 6 * (16 + n)}))
	}
	for n := 8.; n <= 60; n += 52 {
		c.add("HERD, its paper", true, n, 26)
	}
	return c
}

// clientCurve is figure 12.
func (h *herd) clientCurve(seed uint64) Curve {
	c := Curve{Title: "HERD by number of clients, 6 server threads", X: "clients", Y: "M/s"}
	for n := 20; n <= 500; n += 20 {
		c.add("4 calls each", false, float64(n), h.many(seed, 4, n))
		c.add("16 calls each", false, float64(n), h.many(seed, 16, n))
	}
	for _, n := range []float64{60, 260} {
		c.add("HERD, its paper", true, n, 26)
	}
	return c
}

// coreCurve is HERD's line of figure 13.
func (h *herd) coreCurve(seed uint64) Curve {
	c := Curve{Title: "HERD by server threads, 51 clients of 4 calls", X: "threads", Y: "M/s"}
	for n := 1; n <= 7; n++ {
		e := base(seed)
		e.Servers = n
		c.add("HERD", false, float64(n), h.echo(e).Rate/1e6)
	}
	c.add("HERD, its paper", true, 1, 6.3)
	c.add("HERD, its paper", true, 6, 26)
	return c
}
