package waitlab

import "time"

// Costs are the times that a run takes as given. None is chosen after its results.
type Costs struct {
	Cores int
	// Ring is a look at the head of a receive ring.
	Ring time.Duration
	// Look is epoll_wait with a timeout of 0, or the end of one that slept.
	Look time.Duration
	// Read is the read of an eventfd or of an event channel.
	Read time.Duration
	// Write is the write to an eventfd that wakes a thread of another core: the writer's part.
	Write time.Duration
	// Wake is the time from that write until the thread runs.
	Wake time.Duration
	// Interrupt is the time of the core that handles interrupts, for one of them.
	Interrupt time.Duration
	// Switch is the time that a core loses when it takes up another thread.
	Switch time.Duration
	// Latency and LeastSlice are those of the scheduler: the threads of a core each have it once
	// in Latency, for LeastSlice at least.
	Latency, LeastSlice time.Duration
}

// Work describes the calls of a run.
type Work struct {
	Wire    time.Duration // one way
	Service time.Duration // server's processor time for a call
	Client  time.Duration // client's
}

// RoundTrip is the time of a call that nothing delays.
func (w Work) RoundTrip() time.Duration { return 2*w.Wire + w.Service + w.Client }

const (
	ns = time.Nanosecond
	us = time.Microsecond
	ms = time.Millisecond
)

// Paper returns the costs of RR-Compound's server, as far as they are known:
//
//   - Cores: sections IV-B and IV-E.
//   - Ring: several nanoseconds (IV-D).
//   - Look, Read, Write, Switch: costs_linux_test.go on a virtual machine of two shared cores. The
//     best of five rounds; for Write the median of the best round in which the other core slept
//     (2.6 to 3.5 us; 0.3 us if it was busy). Their machine was no virtual one; this is the part
//     of the model that is least theirs.
//   - Wake: figure 13. A call takes 17.07 us with a spin of 0 and 6.80 with a long one. The
//     difference is the poller's write, the wake-up, and the worker's two calls.
//   - Interrupt: at least the wake-up that it makes, so that of Write.
//   - Latency and LeastSlice: 6 and 0.75 ms, times 1+log2(8 cores), as CFS in Linux 3.10 scales
//     them (kernel/sched/fair.c, sched_latency and get_update_sysctl_factor).
func Paper() Costs {
	c := Costs{Cores: 40, Ring: 5 * ns, Look: 150 * ns, Read: 160 * ns, Write: 2600 * ns,
		Switch: 2 * us, Latency: 24 * ms, LeastSlice: 3 * ms}
	c.Interrupt = c.Write
	c.Wake = (17070-6800)*ns - c.Write - c.Look - c.Read
	return c
}

// slice is how long each of so many threads keeps a core.
func (c *Costs) slice(threads int) time.Duration {
	each := (threads + c.Cores - 1) / c.Cores
	return max(c.Latency/time.Duration(max(each, 1)), c.LeastSlice)
}

// Half a round trip of an RDMA READ on the same adapter, ConnectX-5 (eRPC paper, table 2).
const wire = 1 * us

// Echo is the call of figure 8: 4 KB there and back, through gRPC. Four clients make 132,000 calls
// a second with a thread each, so that one takes 30.3 us. Without the
// time on the wire at 100 Gbit/s, half of it is the server's and half the client's: our assumption.
func Echo() Work { return work(30300*ns, wire+330*ns) }

// Small is the call of figure 13: some bytes, 6.80 us, shared in the same way.
func Small() Work { return work(6800*ns, wire) }

func work(trip, wire time.Duration) Work {
	each := (trip - 2*wire) / 2
	return Work{Wire: wire, Service: each, Client: each}
}
