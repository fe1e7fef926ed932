package simtest

import (
	"flag"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/sim"
	"github.com/userspace-rpc/erpc/transport/sim/bulk"
)

var besideAll = flag.Bool("beside.all", false, "all rows of the table beside TCP, minutes")

// beside is one row: clients, each on a machine of its own with a fast link, send to a server
// behind a slow link, beside bulk flows of TCP to the same machine.
type beside struct {
	bits  int64         // of the server's link, per second
	rtt   time.Duration // of the path without queues
	queue time.Duration // of the port to it
	ours  int           // clients
	tcp   int           // flows
	alg   erpc.CCAlgorithm
}

// besideGot has the figures of a row.
type besideGot struct {
	share float64       // of a client, in parts of a flow's
	used  float64       // part of the link, payload of both
	queue time.Duration // in the port, on average
	lost  float64       // of all packets, there
}

func (g besideGot) String() string {
	return fmt.Sprintf("%5.2f %5.2f %10v %5.2f%%", g.share, g.used, g.queue.Round(time.Microsecond),
		100*g.lost)
}

// besideRun is a row under way.
type besideRun struct {
	beside
	c     *cluster
	ours  []*stream
	flows []*bulk.Flow
}

// start makes the network and lets clients and flows begin.
func (b beside) start(t *testing.T) *besideRun {
	net := wideLink(b.rtt / 2)
	bdp := int(b.bits / 8 * int64(b.rtt) / int64(time.Second))
	net.PortBuffer, net.LinkBitsPerSec = int(b.bits/8*int64(b.queue)/int64(time.Second)), 10e9
	cfg := erpc.Config{Congestion: erpc.Congestion{Algorithm: b.alg}}
	r := &besideRun{beside: b, c: newCluster(t, net)}
	server := r.c.add(cfg, sim.EndpointConfig{})
	if err := r.c.net.SetLinkBits(server.id, b.bits); err != nil {
		t.Fatal(err)
	}
	size := max(20_000, (bdp+net.PortBuffer)/2) // four calls are twice what link and queue hold
	for range b.ours {
		r.ours = append(r.ours,
			r.c.stream(r.c.add(cfg, sim.EndpointConfig{}), server.id, size, 4))
	}
	for i := range b.tcp {
		f, err := bulk.Start(r.c.net, 1+b.ours+i, server.id)
		if err != nil {
			t.Fatal(err)
		}
		r.flows = append(r.flows, f)
	}
	return r
}

// done returns the bytes of clients and of flows until now.
func (r *besideRun) done() (ours, tcp float64) {
	for _, s := range r.ours {
		ours += float64(s.done)
	}
	for _, f := range r.flows {
		tcp += float64(f.Acked())
	}
	return ours, tcp
}

// measure runs the row for d and returns its figures of that time.
func (r *besideRun) measure(d time.Duration) (got besideGot) {
	const samples = 1000
	ours, tcp := r.done()
	was, depth := r.c.net.Stats(), 0.0
	for range samples {
		r.c.run(d / samples)
		port, err := r.c.net.HostPort(0)
		if err != nil {
			r.c.t.Fatal(err)
		}
		depth += float64(port.Depth) / samples
	}
	o, f := r.done()
	ours, tcp = o-ours, f-tcp
	got.share = ours / float64(max(1, len(r.ours))) / max(1, tcp/float64(max(1, len(r.flows))))
	got.used = (ours + tcp) * 8 / d.Seconds() / float64(r.bits)
	got.queue = time.Duration(depth * 8 / float64(r.bits) * 1e9)
	now := r.c.net.Stats()
	got.lost = float64(now.TailDrops-was.TailDrops) / float64(now.Sent-was.Sent)
	return got
}

// time is how long a row runs before it is measured, and half of how long it is measured: some
// times of a flow's from a loss to the next.
func (b beside) time() time.Duration {
	return max(2*time.Second, min(500*(b.rtt+b.queue), 10*time.Second))
}

// name is that of the row's test: control, Mbit/s, round trip, queue, clients, flows.
func (b beside) name() string {
	return fmt.Sprintf("%v/%d/%v/%v/%d/%d", b.alg, b.bits/1e6, b.rtt, b.queue, b.ours,
		b.tcp)
}

// row measures a row, and holds the share to a range.
func (b beside) row(least, most float64) func(t *testing.T) {
	return func(t *testing.T) {
		r := b.start(t)
		r.c.run(b.time())
		got := r.measure(2 * b.time())
		t.Logf("%-34s %v", b.name(), got)
		if got.share < least || got.share > most {
			t.Errorf("a share of %.2f, want %v to %v", got.share, least, most)
		}
	}
}

// TestBeside is the table of links that are shared with TCP: control, Mbit/s, round trip, queue,
// clients, flows; share of a client, in parts of a flow's, part of the link that is used, queue,
// and packets that are lost there. As many clients as flows get 0.3 to 2 times as much with
// CCCubic, and less with Timely. The flag -beside.all shows other rows too, also those that miss
// it: in a queue of a few packets flows wait for timeouts that are 40 times as long, and in one of
// thousands of packets it takes minutes until a client has caught up.
func TestBeside(t *testing.T) {
	notRaced(t)
	if *besideAll {
		for _, bits := range []int64{10e6, 100e6, 1e9} {
			for _, rtt := range []time.Duration{10 * time.Millisecond, time.Millisecond,
				100 * time.Microsecond} {
				for _, queue := range []time.Duration{1, 4} {
					for _, n := range [][2]int{{1, 0}, {0, 1}, {1, 1}, {1, 4}, {4, 1}, {4, 4}} {
						for _, alg := range []erpc.CCAlgorithm{erpc.CCCubic, erpc.CCTimely, erpc.CCSwift} {
							b := beside{bits, rtt, queue * max(rtt, 1200*time.Microsecond), n[0], n[1], alg}
							t.Run(b.name(), b.row(0, math.Inf(1)))
						}
					}
				}
			}
		}
		return
	}
	rows := besideRows
	if testing.Short() {
		rows = rows[len(rows)-1:]
	}
	for _, b := range rows {
		t.Run(b.name(), b.row(0.3, 2))
	}
	b := rows[len(rows)-1]
	b.alg = erpc.CCTimely
	t.Run(b.name(), b.row(0, 0.29)) // it yields
}

// besideRows are some rows of the table.
var besideRows = []beside{
	{1e9, time.Millisecond, 5 * time.Millisecond, 4, 4, erpc.CCCubic},
	{1e9, time.Millisecond, time.Millisecond, 4, 4, erpc.CCCubic},
	{1e9, time.Millisecond, 5 * time.Millisecond, 1, 1, erpc.CCCubic},
	{100e6, time.Millisecond, 5 * time.Millisecond, 1, 1, erpc.CCCubic},
	{100e6, 10 * time.Millisecond, 10 * time.Millisecond, 1, 1, erpc.CCCubic},
	{100e6, 10 * time.Millisecond, 10 * time.Millisecond, 4, 4, erpc.CCCubic},
}

// TestFlowsStop: clients that share a link with flows take all of it when those stop.
func TestFlowsStop(t *testing.T) {
	notRaced(t)
	for _, n := range []int{1, 4} {
		b := beside{100e6, time.Millisecond, 5 * time.Millisecond, n, n, erpc.CCCubic}
		r := b.start(t)
		r.c.run(2 * time.Second)
		with := r.measure(10 * time.Second)
		for _, f := range r.flows {
			f.Stop()
		}
		r.c.run(time.Second)
		alone := r.measure(2 * time.Second)
		t.Logf("%d: %v with them, %v after", n, with, alone)
		if with.share < 0.3 || with.share > 2.2 || alone.used < 0.9 {
			t.Errorf("%d: not as it must be", n)
		}
	}
}
