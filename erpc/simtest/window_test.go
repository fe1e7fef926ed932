package simtest

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// stream keeps window calls of size bytes under way from one node to another, and counts the bytes
// of those that ended.
type stream struct {
	c    *cluster
	from *node
	to   int
	size int
	resp int // bytes of an answer
	done int
	over bool
}

func (c *cluster) stream(from *node, to, size, window int) *stream {
	return c.echoes(from, to, size, 8, window)
}

// echoes is stream with answers of so many bytes.
func (c *cluster) echoes(from *node, to, size, resp, window int) *stream {
	s := &stream{c: c, from: from, to: to, size: size, resp: resp}
	for range window {
		s.next(nil)
	}
	return s
}

func (s *stream) next(k *call) {
	if k != nil && k.err == nil {
		s.done += s.size
	}
	if s.over {
		return
	}
	k = &call{from: s.from, to: s.to, typ: typeEcho, reqSize: s.size, respSize: s.resp, respMax: -1,
		then: s.next}
	if err := s.c.issue(k); err != nil {
		s.c.t.Fatal(err)
	}
}

// rate runs the cluster for d, and returns the rate of the data of the calls that ended, bits per
// second.
func (s *stream) rate(d time.Duration) float64 {
	was := s.done
	s.c.run(d)
	return float64(s.done-was) * 8 / d.Seconds()
}

// end lets all calls of streams end.
func (c *cluster) end(all ...*stream) {
	c.t.Helper()
	for _, s := range all {
		s.over = true
	}
	c.must(30 * time.Second)
	c.closeAll()
}

// controls returns the congestion controls of the tests below.
func controls() []erpc.CCAlgorithm {
	if testing.Short() {
		return []erpc.CCAlgorithm{erpc.CCTimely}
	}
	return []erpc.CCAlgorithm{erpc.CCTimely, erpc.CCNone}
}

// wideLink is a path of 10 Gbit/s whose packets take d each way. Its switch holds 100 kB a port.
func wideLink(d time.Duration) sim.Config {
	return sim.Config{LinkBitsPerSec: 10e9, PropDelay: d / 2, RxRing: 1 << 14, PortBuffer: 100_000,
		WireOverhead: sim.EthernetOverhead}
}

// TestLongPath: a session fills a path of 10 Gbit/s and 1 ms each way, on which 128 credits make
// 0.67 Gbit/s, and loses nothing. Headers leave 9.4 Gbit/s.
func TestLongPath(t *testing.T) {
	notRaced(t)
	for _, alg := range controls() {
		for _, d := range []time.Duration{time.Millisecond / 2, time.Millisecond} {
			for _, credits := range []int{0, 128} {
				c, from, _ := pair(t, wideLink(d), erpc.Config{Credits: credits,
					Congestion: erpc.Congestion{Algorithm: alg}})
				s := c.stream(from, 1, 4<<20, 2)
				c.run(100 * time.Millisecond)
				rate, window := s.rate(100*time.Millisecond), from.sessions[1].Window()
				inFlight := 2 * d.Seconds() * 10e9 / 8 / 1538 // packets
				if credits == 0 && (rate < 9.2e9 || float64(window) > 1.2*inFlight) ||
					credits != 0 && (window != credits || rate > 1.7e9) {
					t.Errorf("control %d, %v, %d credits: %.2f Gbit/s, a window of %d", alg, d, credits,
						rate/1e9, window)
				}
				if p := from.rpc.Stats().Protocol; p.Retransmits != 0 || c.net.Stats().TailDrops != 0 {
					t.Errorf("control %d, %v: %+v, %+v", alg, d, p, c.net.Stats())
				}
				c.end(s)
			}
		}
	}
}

// TestShortPath: where a session fills its path with the credits that it has at first it has no
// more, and does in time what it does with as many that are fixed. On a link so slow that as many
// wait in a queue for milliseconds it has fewer, each of which is returned by itself.
func TestShortPath(t *testing.T) {
	notRaced(t)
	for _, alg := range controls() {
		for _, of := range []struct {
			bits        int64
			delay       time.Duration
			least, most int     // windows
			more        float64 // packets, for each that is sent with fixed credits
		}{
			{10e9, 4 * time.Microsecond, 128, 128, 1.02}, {1e9, 4 * time.Microsecond, 128, 128, 1.03},
			{100e6, time.Millisecond, 16, 64, 1.7},
		} {
			var done, sent [2]int
			for i, credits := range []int{0, 128} {
				net := wideLink(of.delay)
				net.LinkBitsPerSec = of.bits
				c, from, _ := pair(t, net, erpc.Config{Credits: credits,
					Congestion: erpc.Congestion{Algorithm: alg}})
				s := c.stream(from, 1, 1<<20, 2)
				c.run(200 * time.Millisecond)
				if n := from.sessions[1].Window(); credits == 0 && (n < of.least || n > of.most) {
					t.Errorf("control %d, %+v: a window of %d", alg, of, n)
				}
				done[i], sent[i] = s.done, int(c.net.Stats().Sent)
				c.end(s)
			}
			if done[0] != done[1] || float64(sent[0]) > of.more*float64(sent[1]) || done[0] == 0 {
				t.Errorf("control %d, %+v: %d bytes in %d packets", alg, of, done, sent)
			}
		}
	}
}

// TestWindowAtSwitch: of many senders to one, windows lose no more packets for each byte than fixed
// credits do, by a quarter, and have no less goodput. As much comes about by chance.
func TestWindowAtSwitch(t *testing.T) {
	notRaced(t)
	if testing.Short() {
		t.Skip("minutes under the race detector, and of one thread")
	}
	for _, alg := range controls() {
		for _, us := range []time.Duration{50, 500, 1000} {
			d := us * time.Microsecond
			var lost, done [2]float64
			for i, credits := range []int{0, 128} {
				for senders := 4; senders <= 12; senders += 4 {
					drops, bytes := incast(t, senders, wideLink(d), erpc.Config{Checksum: true,
						Credits: credits, Congestion: erpc.Congestion{Algorithm: alg}})
					lost[i] += drops
					done[i] += bytes
				}
			}
			if lost[0]/done[0] > 1.25*lost[1]/done[1] || done[0] < 0.95*done[1] {
				t.Errorf("control %d, %v: lost %.0f packets of %.3g bytes, with fixed credits %.0f of %.3g",
					alg, d, lost[0], done[0], lost[1], done[1])
			}
		}
	}
}

// incast has senders send to one for a while, and returns how many packets its port drops and how
// many bytes come.
func incast(t *testing.T, senders int, net sim.Config, cfg erpc.Config) (drops, bytes float64) {
	c, from, _ := pair(t, net, cfg)
	all := []*stream{c.stream(from, 1, 1<<20, 2)}
	for len(all) < senders {
		all = append(all, c.stream(c.add(cfg, sim.EndpointConfig{}), 1, 1<<20, 2))
	}
	c.run(150 * time.Millisecond)
	for _, s := range all {
		bytes += float64(s.done)
	}
	drops = float64(c.net.Stats().TailDrops)
	c.end(all...)
	return drops, bytes
}

// TestPathFalls: the window falls with its path, to a tenth, and rises with it.
func TestPathFalls(t *testing.T) {
	notRaced(t)
	for _, alg := range controls() {
		for _, buffer := range []int{0, 1 << 20} {
			net := wideLink(time.Millisecond)
			net.PortBuffer = buffer
			c, from, _ := pair(t, net, erpc.Config{Congestion: erpc.Congestion{Algorithm: alg}})
			s := c.stream(from, 1, 1<<20, 4)
			var windows [3]int
			for i, bits := range []int64{10e9, 1e9, 10e9} {
				if err := c.net.SetLinkBits(1, bits); err != nil {
					t.Fatal(err)
				}
				c.run(250 * time.Millisecond)
				windows[i] = from.sessions[1].Window()
			}
			if windows[0] < 1600 || windows[1] > 250 || windows[2] < 700 {
				t.Errorf("control %d, buffer %d: windows %d", alg, buffer, windows)
			}
			c.end(s)
		}
	}
}
