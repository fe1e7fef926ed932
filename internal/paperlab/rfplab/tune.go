package rfplab

import (
	"time"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// Tune runs rfp.Tune on the papers' adapters, for the papers' workload with values of these sizes.
func Tune(seed uint64, values []int) (rfp.Tuning, error) {
	m := machine(seed)
	sizes := make([]int, len(values))
	for i, v := range values {
		sizes[i] = rfp.Overhead + rfp.Entry + 1 + v
	}
	return rfp.Tune(&m, sizes)
}

// machine measures the model.
func machine(seed uint64) rfp.Machine {
	p := model.Paper()
	calls := func(cfg rfp.Config, process time.Duration) (float64, error) {
		r := store(seed, 16)
		r.Own, r.Process, r.Calls, r.Config = true, process, 800, cfg
		r.OneAtATime = true
		res, err := Simulate(r)
		return res.Rate, err
	}
	return rfp.Machine{
		Reads: func(bytes int) (float64, error) { return InRate(p, true, bytes, 7, 1) },
		Calls: func(mode rfp.Mode, process time.Duration) (float64, error) {
			return calls(rfp.Config{Paper: true, F: 64, Mode: mode}, process)
		},
		IOPS: func(r, f int) (float64, error) {
			return calls(rfp.Config{Paper: true, F: f, R: r}, 0)
		},
		RoundTrip: p.RoundTrip,
	}
}

// InRate measures how many READs or WRITEs of a size a server's adapter serves, for so many
// machines that each issue so many at a time.
func InRate(p model.Params, read bool, bytes, machines, window int) (float64, error) {
	net := model.New(p, 1)
	server := net.Machine(p.Server)
	for range machines {
		if _, err := issue(net, net.Machine(p.Client), server, read, bytes, 5*window); err != nil {
			return 0, err
		}
	}
	return rate(net, func() uint64 { return server.Stats().In }), nil
}

// OutRate measures how many a server's adapter issues, to as many machines.
func OutRate(p model.Params, read bool, bytes, machines, window int) (float64, error) {
	net := model.New(p, 1)
	server := net.Machine(p.Server)
	for range machines {
		if _, err := issue(net, server, net.Machine(p.Client), read, bytes, window); err != nil {
			return 0, err
		}
	}
	return rate(net, func() uint64 { return server.Stats().Out }), nil
}

// issue keeps so many operations of a link under way.
func issue(net *model.Network, from, to *model.Machine, read bool, bytes, window int) (*model.Link,
	error) {
	size := (bytes + 7) &^ 7
	x, _, err := model.Connect(from, to, []onesided.Spec{{Size: size}},
		[]onesided.Spec{{Size: size, Access: onesided.PeerReads | onesided.PeerWrites}})
	if err != nil {
		return nil, err
	}
	var b onesided.Batch
	done := make([]onesided.Completion, window)
	under := 0
	th := from.Thread(func(model.Time) time.Duration {
		under -= x.Poll(done)
		b.Reset()
		for ; under < window; under++ {
			if read {
				b.Read(0, 0, 0, 0, bytes, 0)
			} else {
				b.Write(0, 0, 0, 0, bytes, 0, true)
			}
		}
		if len(b.Ops) > 0 {
			_ = x.Post(&b) // the window is far below what a link takes
		}
		return 0
	})
	x.Bind(th)
	th.Wake()
	return x, nil
}

// rate is how much a counter grows in a second.
func rate(net *model.Network, count func() uint64) float64 {
	net.RunUntil(net.Now().Add(100 * time.Microsecond))
	before, begin := count(), net.Now()
	net.RunUntil(begin.Add(300 * time.Microsecond))
	return float64(count()-before) / net.Now().Sub(begin).Seconds()
}
