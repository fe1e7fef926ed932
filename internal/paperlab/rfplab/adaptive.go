package rfplab

import (
	"time"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// Choice is a case in which a client may choose its way: calls per second of each fixed one, and of
// clients that choose.
type Choice struct {
	Adapters string
	Process  time.Duration
	Value    int // bytes
	Clients  int
	Fixed    [ways]float64 // fetch, reply, erpc
	Adaptive float64
	Ways     [ways]int // clients by the way that they found best
}

// Behind returns the part by which choosing is behind the best fixed way.
func (c *Choice) Behind() float64 {
	best := max(c.Fixed[wayFetch], c.Fixed[wayReply], c.Fixed[wayERPC])
	return 1 - c.Adaptive/best
}

// Choices goes through adapters, process times, sizes and numbers of clients. The calls that count
// begin when each client has made 1000 on average.
func Choices(seed uint64, processes []time.Duration, sizes, clients []int) (list []Choice,
	err error) {
	for _, nic := range []struct {
		name string
		p    model.Params
	}{{"that wait", model.Paper()}, {"that do not", model.Pipelined()}} {
		for _, process := range processes {
			for _, size := range sizes {
				for _, n := range clients {
					c := Choice{Adapters: nic.name, Process: process, Value: size, Clients: n}
					if err := c.measure(seed, nic.p); err != nil {
						return list, err
					}
					list = append(list, c)
				}
			}
		}
	}
	return list, nil
}

// measure runs the fixed ways, and clients that choose.
func (c *Choice) measure(seed uint64, p model.Params) error {
	r := Run{Params: p, Servers: 4, Clients: c.Clients, Gets: .95, Seed: seed, Value: c.Value,
		Process: c.Process, Calls: 1500 + 60*c.Clients, Warm: 200 + 10*c.Clients}
	f := rfp.DefaultF
	if c.Value > f {
		f = c.Value + 2*rfp.Overhead
	}
	for way, cfg := range []rfp.Config{{Mode: rfp.Fetch, F: f}, {Mode: rfp.Reply}, {}} {
		one := r
		one.Config = cfg
		if way == wayERPC {
			one.Design = ERPC
		}
		res, err := Simulate(one)
		if err != nil {
			return err
		}
		c.Fixed[way] = res.Rate
	}
	r.Adaptive, r.Config = true, rfp.Config{Mode: rfp.Fetch, F: f}
	r.Warm = 1000 * c.Clients
	r.Calls = 3000 + 150*c.Clients
	res, err := Simulate(r)
	c.Adaptive, c.Ways = res.Rate, res.Ways
	return err
}
