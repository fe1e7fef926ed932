package simtest

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/sim"
)

var slowAll = flag.Bool("slow.all", false, "all rows of the table of slow links, a minute")

// socketRing is how many full packets the receive buffer of a UDP socket holds, of 4 MiB: with more
// than a dozen sessions the server agrees to no more credits than they have at first.
const socketRing = 1800

// slowLink is one row: clients, each on a machine of its own with a fast link, keep calls of size
// bytes, with answers of resp bytes, to a server behind a slow link under way.
type slowLink struct {
	bits    int64         // of the server's link, per second
	delay   time.Duration // one way
	buffer  int           // of the port to it, bytes
	clients int
	size    int
	resp    int // bytes of an answer
	calls   int // of a client
	alg     erpc.CCAlgorithm
}

// slowShare has the figures of a row.
type slowShare struct {
	goodput float64       // of the link, or of what two calls give in a round trip, if that is less
	jain    float64       // index of the clients' goodput
	longest time.Duration // call, also one under way
	fair    time.Duration // what a call takes at a fair share
	lost    float64       // of the packets to the server, in the queue
	again   float64       // of the packets that clients sent, sent again
	failed  int           // calls
}

func (s slowShare) String() string {
	return fmt.Sprintf("%5.2f %5.2f %7.2f %5.1f%% %5.1f%% %d", s.goodput, s.jain,
		s.longest.Seconds()/s.fair.Seconds(), 100*s.lost, 100*s.again, s.failed)
}

// good reports whether a row is as it must be, with so much of the link at least.
func (s slowShare) good(least float64) bool {
	return s.goodput >= least && s.jain >= 0.9 && s.lost < 0.15 && s.failed == 0
}

// run measures the row after the time that some calls take.
func (l slowLink) run(t *testing.T) (got slowShare) {
	net := wideLink(l.delay)
	net.PortBuffer = l.buffer
	cfg := erpc.Config{Congestion: erpc.Congestion{Algorithm: l.alg}}
	c := newCluster(t, net)
	server := c.add(cfg, sim.EndpointConfig{RxRing: socketRing})
	if err := c.net.SetLinkBits(server.id, l.bits); err != nil {
		t.Fatal(err)
	}
	all := make([]*stream, l.clients)
	for i := range all {
		all[i] = c.echoes(c.add(cfg, sim.EndpointConfig{}), server.id, l.size, l.resp, l.calls)
	}
	got.fair = time.Duration(l.calls * l.clients * l.size * 8 * int(time.Second) / int(l.bits))
	warm := max(3*got.fair, 200*l.delay, time.Second)
	c.run(warm)
	was := make([]int, len(all))
	for i, s := range all {
		was[i] = s.done
	}
	c.run(2 * warm)
	sum, squares := 0.0, 0.0
	for i, s := range all {
		x := float64(s.done - was[i])
		sum, squares = sum+x, squares+x*x
		got.again += float64(s.from.rpc.Stats().Protocol.Retransmits)
	}
	got.goodput = sum * 8 / (2 * warm).Seconds() / min(float64(l.bits),
		float64(l.calls*l.clients*l.size*8)/(2*l.delay).Seconds())
	got.jain = sum * sum / squares / float64(len(all))
	for _, k := range c.calls {
		end := k.endedAt
		if k.ends == 0 {
			end = c.net.Now()
		}
		got.longest = max(got.longest, end.Sub(k.issuedAt))
		if k.err != nil {
			got.failed++
		}
	}
	stats := c.net.Stats()
	got.lost, got.again = float64(stats.TailDrops)/float64(stats.Sent), got.again/float64(stats.Sent)
	return got
}

// TestSlowLinks is the table of slow links: goodput is at least 0.85 of the link, with Swift, which
// is no default, 0.8. Clients share it equally, no call fails, and few packets are lost. The flag
// -slow.all shows all rows, also those that miss it: swift with few clients on short paths of 100
// Mbit/s and 1 Gbit/s, and 40 that connect at the same time through 2 Mbit/s.
func TestSlowLinks(t *testing.T) {
	algs, rates := append(controls(), erpc.CCSwift), []int64{2e6, 10e6, 100e6, 1e9}
	delays, counts := []time.Duration{time.Millisecond}, []int{5, 40}
	switch {
	case *slowAll:
		algs = []erpc.CCAlgorithm{erpc.CCTimely, erpc.CCSwift, erpc.CCCubic, erpc.CCNone}
		delays, counts = append(delays, 20*time.Microsecond, 10*time.Millisecond), []int{1, 5, 20, 40}
	case testing.Short():
		rates = rates[1:2]
	}
	if raced {
		algs, counts = algs[:1], counts[:1]
	}
	t.Log("control, Mbit/s, delay, clients: goodput, Jain, longest call/fair, lost, again, failed")
	for _, alg := range algs {
		for _, bits := range rates {
			for _, delay := range delays {
				for _, n := range counts {
					l := slowLink{bits, delay, 250_000, n, 40_000, 8, 2, alg}
					got := l.run(t)
					t.Logf("%-6v %5.0f %5v %3d  %v", alg, float64(bits)/1e6, delay, n, got)
					least := 0.85
					if alg == erpc.CCSwift {
						least = 0.8
					}
					if !*slowAll && !got.good(least) {
						t.Error("not as it must be")
					}
				}
			}
		}
	}
}

// TestDeepQueue: forty clients that dial at the same time share a link of 2 Mbit/s whose queue
// holds four seconds, longer than a peer may be silent: some lose their first sessions, no more.
func TestDeepQueue(t *testing.T) {
	notRaced(t)
	if testing.Short() {
		t.Skip("forty clients for two minutes of virtual time")
	}
	l := slowLink{2e6, time.Millisecond, 1_000_000, 40, 40_000, 8, 2, erpc.CCTimely}
	got := l.run(t)
	t.Log(got)
	if got.goodput < 0.85 || got.jain < 0.9 {
		t.Error("not as it must be")
	}
}

// TestSlowEchoes: requests and answers fill both ways of a slow link, though the calls of a session
// begin together.
func TestSlowEchoes(t *testing.T) {
	for _, bits := range []int64{2e6, 100e6} {
		l := slowLink{bits, time.Millisecond, 250_000, 1, 40_000, 40_000, 4, erpc.CCTimely}
		got := l.run(t)
		t.Logf("%5.0f Mbit/s: %v", float64(bits)/1e6, got)
		if !got.good(0.85) {
			t.Error("not as it must be")
		}
	}
}
