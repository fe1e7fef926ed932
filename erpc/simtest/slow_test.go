package simtest

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/sim"
)

var slowAll = flag.Bool("slow.all", false, "all rows of the table of slow links: minutes")

// slowLink is one row: clients, each on a machine of its own with a fast link, keep two calls of
// size bytes each to a server behind a slow link under way.
type slowLink struct {
	bits    int64         // of the server's link, per second
	delay   time.Duration // one way
	buffer  int           // of the port to it, bytes
	clients int
	size    int
	alg     erpc.CCAlgorithm
}

// slowShare is what one row shows.
type slowShare struct {
	goodput float64       // of the link
	jain    float64       // index of the clients' goodput
	longest time.Duration // call, also one under way
	fair    time.Duration // what a call takes at a fair share
	lost    float64       // of the packets to the server, in the queue
	again   float64       // of the packets that clients sent, sent again
}

func (s slowShare) String() string {
	return fmt.Sprintf("%5.2f %5.2f %7.2f %5.1f%% %5.1f%%", s.goodput, s.jain,
		s.longest.Seconds()/s.fair.Seconds(), 100*s.lost, 100*s.again)
}

// run measures the row after the time that some calls take.
func (l slowLink) run(t *testing.T) (got slowShare) {
	net := wideLink(l.delay)
	net.PortBuffer = l.buffer
	cfg := erpc.Config{Congestion: erpc.Congestion{Algorithm: l.alg}}
	c := newCluster(t, net)
	server := c.add(cfg, sim.EndpointConfig{})
	if err := c.net.SetLinkBits(server.id, l.bits); err != nil {
		t.Fatal(err)
	}
	all := make([]*stream, l.clients)
	for i := range all {
		all[i] = c.stream(c.add(cfg, sim.EndpointConfig{}), server.id, l.size, 2)
	}
	got.fair = time.Duration(2 * l.clients * l.size * 8 * int(time.Second) / int(l.bits))
	warm := max(3*got.fair, 100*l.delay)
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
	got.goodput = sum * 8 / (2 * warm).Seconds() / float64(l.bits)
	got.jain = sum * sum / squares / float64(len(all))
	for _, k := range c.calls {
		end := k.endedAt
		if k.ends == 0 {
			end = c.net.Now()
		}
		got.longest = max(got.longest, end.Sub(k.issuedAt))
	}
	stats := c.net.Stats()
	got.lost, got.again = float64(stats.TailDrops)/float64(stats.Sent), got.again/float64(stats.Sent)
	return got
}

var slowNames = map[erpc.CCAlgorithm]string{erpc.CCTimely: "timely", erpc.CCSwift: "swift",
	erpc.CCNone: "none"}

func TestSlowLinkTable(t *testing.T) {
	if !*slowAll {
		t.Skip()
	}
	t.Log("control  Mbit/s delay buffer clients size  goodput jain longest lost again")
	for _, alg := range []erpc.CCAlgorithm{erpc.CCTimely, erpc.CCSwift, erpc.CCNone} {
		for _, bits := range []int64{2e6, 10e6, 100e6, 1e9} {
			for _, delay := range []time.Duration{time.Millisecond, 10 * time.Millisecond} {
				for _, clients := range []int{1, 5, 20, 40} {
					l := slowLink{bits, delay, 250_000, clients, 40_000, alg}
					got := l.run(t)
					t.Logf("%-6s %5.0f %5v %6d %3d %7d  %v", slowNames[alg], float64(bits)/1e6, delay,
						l.buffer, clients, l.size, got)
				}
			}
		}
	}
}
