package rfplab

import (
	"fmt"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// items is how many keys RFP and RF-RPC draw from, and the part of them that HERD gives a client.
const (
	items     = 128_000_000
	herdItems = 8_000_000
	skew      = .99
)

// threads is RF-RPC's figures 11 and 12: 42 clients, and server threads for three of them each, or
// for each. Both have 42 queue pairs; the larger one has more threads than cores.
func threads(run func(Run) Result, seed uint64, add adder) {
	r := store(seed, 14)
	r.Clients, r.Own, r.Cores, r.Calls = 42, true, model.Cores, 60_000
	some := run(r).Rate / 1e6
	r.Servers = 42
	each := run(r).Rate / 1e6
	add("14 server threads, 3 clients each", some, 4.73, "M/s", model.Paper().Server.InRead/2e6)
	add("42 server threads, a client each, on 16 cores", each, 4.73/1.51, "M/s", 0)
	add("14 threads to 42", some/each, 1.51, "times", 0)
}

// skewed is RF-RPC's figure 15 and RFP's and HERD's words on loads of partitions.
func skewed(run func(Run) Result, seed uint64, add adder) {
	for _, n := range []int{4, 24, 96} {
		r := batched(seed, n, false)
		even := run(r).Rate
		r.Theta, r.Keys = skew, items
		add(fmt.Sprintf("batches of %d, Zipf .99 to uniform", n), run(r).Rate/even, 1, "times", 0)
	}
	four, six := newZipf(items, skew).spread(4), newZipf(herdItems, skew).spread(6)
	add("Zipf .99: most loaded of 4 threads to least", four, 1.2, "times", 0)
	add("Zipf .99: most loaded of 6 threads to least", six, 1.5, "times", 0)
}

// links is RF-RPC's table 4: one client and one server thread.
func links(run func(Run) Result, seed uint64, add adder) {
	rate := func(p model.Params, r Run) float64 {
		r.Params, r.Clients, r.Machines = p, 1, 1
		return run(r).Rate
	}
	fetch, rep := store(seed, 1), reply(store(seed, 1))
	add("RoCE to InfiniBand, one client: fetch", rate(model.RoCE(), fetch)/rate(model.Paper(), fetch),
		1.72/1.85, "times", 0)
	add("RoCE to InfiniBand, one client: reply", rate(model.RoCE(), rep)/rate(model.Paper(), rep),
		1.21/1.30, "times", 0)
}

// few is the half of RF-RPC's table 3 whose adapters are the model's: 4 server threads and 16
// clients on 4 machines.
func few(run func(Run) Result, seed uint64, add adder) {
	for _, n := range []int{1, 16} {
		r := store(seed, 4)
		r.Clients, r.Machines, r.Own = 16, 4, true
		if n > 1 {
			r.Calls, r.Config.Batch, r.Config.F = 600*n, n, rfp.DefaultF
		}
		name := fmt.Sprintf("4 server threads, 16 clients, batches of %d: ", n)
		paper := map[int][2]float64{1: {1.66, 3.05}, 16: {10.1, 12.3}}[n]
		add(name+"reply", run(reply(r)).Rate/1e6, paper[0], "M/s", 0)
		add(name+"fetch", run(r).Rate/1e6, paper[1], "M/s", 0)
	}
}

// optimisations is RF-RPC's figure 10: what WRITEs gain by inlining, and by waiting for none.
func (c *Curve) optimisations() error {
	*c = Curve{Title: "In-bound WRITEs of 32 bytes by threads of 7 client machines", X: "threads",
		Y: "times those that are waited for and not inlined"}
	for n := 1; n <= 42; n++ {
		v := Verbs{Params: model.Paper(), Verb: WRITE, Bytes: 32, Machines: min(n, 7), Window: 1}
		v.Links = n / v.Machines
		if n > 7 && n%7 != 0 {
			continue
		}
		inlined, free := v, v
		v.Params.Inline = 0
		free.Params.Client, free.Window = model.Pipelined().Client, 16
		var rates [3]float64
		for i, k := range []Verbs{v, inlined, free} {
			var err error
			if rates[i], err = k.Rate(); err != nil {
				return err
			}
		}
		c.add("inlined", false, float64(n), rates[1]/rates[0])
		c.add("inlined and not waited for", false, float64(n), rates[2]/rates[0])
		c.add("RF-RPC", true, float64(n), 1.3)
	}
	return nil
}

// roce is RF-RPC's figure 16: 8 server threads and 16 clients on 2 machines, on both links.
func (c *Curve) roce(run func(Run) Result, seed uint64) {
	*c = Curve{Title: "Calls by size of batches, 8 server threads, 16 clients on 2 machines",
		X: "calls in a message", Y: "M/s"}
	for _, n := range []int{2, 4, 8, 16, 24, 32, 64, 96} {
		for _, k := range []struct {
			name string
			p    model.Params
		}{{"RoCE", model.RoCE()}, {"InfiniBand", model.Paper()}} {
			r := batched(seed, n, true)
			r.Params, r.Servers, r.Clients, r.Machines = k.p, 8, 16, 2
			r.Calls = 300 * max(n, 8)
			c.add("fetch, "+k.name, false, float64(n), run(r).Rate/1e6)
			c.add("reply, one at a time, "+k.name, false, float64(n), run(reply(r)).Rate/1e6)
		}
	}
}
