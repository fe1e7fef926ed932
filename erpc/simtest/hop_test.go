package simtest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
	"github.com/userspace-rpc/erpc/wire"
)

// hop is a router next to an endpoint, seen from outside. It forwards datagrams of up to mtu bytes,
// and drops a train as a whole if it does not forward one of its datagrams.
type hop struct {
	mtu   int  // bytes of UDP payload; 0: all that come
	tells bool // it sends ICMP errors
	sizes map[int]int
}

// newHop puts the same hop next to all endpoints of a cluster.
func newHop(c *cluster) *hop {
	h := &hop{sizes: map[int]int{}}
	c.wrap = func(tr transport.Transport) transport.Transport {
		return &behindHop{Transport: tr, hop: h}
	}
	return h
}

// behindHop is an endpoint whose datagrams pass the hop.
type behindHop struct {
	transport.Transport
	hop  *hop
	said []transport.Hint
}

func size(t *transport.TxItem) int { return len(t.Head) + len(t.Data) }

// train returns how many items from the first on leave as one: of one size, and a smaller one.
func train(items []transport.TxItem) int {
	for n := 1; n < len(items); n++ {
		switch {
		case items[n].Dst != items[0].Dst || size(&items[n]) > size(&items[0]):
			return n
		case size(&items[n]) < size(&items[0]):
			return n + 1
		}
	}
	return len(items)
}

func (b *behindHop) TxBurst(items []transport.TxItem) (int, error) {
	for at := 0; at < len(items); {
		n := train(items[at:])
		first := &items[at]
		for i := range n {
			b.hop.sizes[size(&items[at+i])]++
		}
		if b.hop.mtu == 0 || size(first) <= b.hop.mtu {
			if sent, err := b.Transport.TxBurst(items[at : at+n]); sent < n || err != nil {
				return at + sent, err
			}
		} else if b.hop.tells {
			b.said = append(b.said, transport.Hint{
				Kind: transport.HintTooBig, To: first.Dst, MTU: b.hop.mtu,
			})
		}
		at += n
	}
	return len(items), nil
}

func (b *behindHop) Hints(hints []transport.Hint) int {
	n := copy(hints, b.said)
	b.said = b.said[:copy(b.said, b.said[n:])]
	return n
}

// largest returns the size of the largest datagrams that have left since it was asked last, in
// bytes, of which there were more than a few: probes are few.
func (h *hop) largest() (most int) {
	for n, count := range h.sizes {
		if count > 10 {
			most = max(most, n)
		}
	}
	clear(h.sizes)
	return most
}

// load keeps calls under way.
type load struct {
	c       *cluster
	size    int
	left    bool // no more calls
	mayFail bool
	ended   int
	last    sim.Time
	pause   time.Duration // the longest without an answer
	session *erpc.Session
}

func (l *load) next() {
	if l.left {
		return
	}
	k := echo(l.c)
	k.reqSize, k.respSize = l.size, l.size
	k.then = func(k *call) {
		now := l.c.net.Now()
		l.pause = max(l.pause, now.Sub(l.last))
		l.last = now
		l.ended++
		if k.err != nil && !l.mayFail {
			l.c.fail("a call ended with %v", k.err)
		}
		if !l.left {
			l.c.net.After(10*time.Millisecond, l.next)
		}
	}
	if err := l.c.issue(k); err != nil {
		l.c.t.Fatal(err)
	}
}

// newLoad starts n calls of size bytes, and another one 10 ms after each that ends.
func newLoad(c *cluster, n, size int) *load {
	l := &load{c: c, size: size, last: c.net.Now()}
	for range n {
		l.next()
	}
	l.session = c.nodes[0].sessions[1]
	return l
}

// keyed returns the configuration of a node with packets of a kind.
func keyed(kind string, node int) (cfg erpc.Config) {
	switch kind {
	case "PSK":
		cfg.PSK = [][]byte{bytes.Repeat([]byte{7}, 32)}
	case "TLS":
		cfg.TLS = adversaryCert(node)
	}
	return cfg
}

// TestHopFallsAndRises: a hop's MTU falls under load, with a word of ICMP or in silence, and rises
// again. All calls are answered, no pause is longer than half a second, and packets are small while
// it is low and as large as before within 7 s of its rise.
func TestHopFallsAndRises(t *testing.T) {
	kinds, words := []string{"plain", "PSK", "TLS"}, []bool{true, false}
	if raced {
		kinds, words = kinds[1:2], words[:1]
	}
	for _, kind := range kinds {
		falls := [][2]int{{8952, 1472}, {1472, 1252}}
		switch {
		case testing.Short():
			falls = falls[1:]
		case kind == "plain":
			falls = append(falls, [2]int{8952, 1252}, [2]int{1472, 1372})
		}
		for _, mtu := range falls {
			for _, tells := range words {
				t.Run(fmt.Sprintf("%s/%d-%d/icmp=%v", kind, mtu[0], mtu[1], tells), func(t *testing.T) {
					fallAndRise(t, kind, mtu[0], mtu[1], tells)
				})
			}
		}
	}
}

func fallAndRise(t *testing.T, kind string, wide, low int, tells bool) {
	c := newCluster(t, sim.Config{MTU: wide, PropDelay: 250 * time.Microsecond,
		LinkBitsPerSec: 1e9, Trace: tracer(t)})
	h := newHop(c)
	c.add(keyed(kind, 0), sim.EndpointConfig{})
	c.add(keyed(kind, 1), sim.EndpointConfig{})
	l := newLoad(c, 2, 20_000)
	c.run(time.Second)
	full := h.largest()
	for range 2 {
		h.mtu, h.tells = low, tells
		c.run(time.Second)
		h.largest()
		c.run(3 * time.Second)
		if got := h.largest(); got > low {
			t.Errorf("datagrams of %d bytes while the hop carries %d", got, low)
		}
		h.mtu = 0
		c.run(6 * time.Second)
		h.largest()
		c.run(time.Second)
		if got := h.largest(); got != full {
			t.Errorf("datagrams of %d bytes after 7 s, want %d", got, full)
		}
	}
	l.left = true
	c.must(time.Second)
	if l.pause > 500*time.Millisecond {
		t.Errorf("a pause of %v", l.pause)
	}
	t.Logf("full %d, pause %v, %d calls", full, l.pause, l.ended)
	c.closeAll()
}

// TestCongestionIsNoSize: where packets are lost of all sizes alike, in a full queue before a slow
// link or at random, sessions keep their packet size.
func TestCongestionIsNoSize(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 10
	}
	if raced {
		seeds = 2
	}
	for _, loss := range []float64{0, 0.13, 0.3} {
		t.Run(fmt.Sprint("loss of ", loss), func(t *testing.T) {
			for seed := range seeds {
				congested(t, 3*seed, loss)
			}
		})
	}
}

// congested loads a path of a seed's choice, which loses packets at random or has a slow link.
func congested(t *testing.T, seed uint64, loss float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	full := pick(r, 1472, 1472, 8952)
	bits, size, calls := int64(1e9), 5_000+r.IntN(50_000), 1+r.IntN(16)
	if loss == 0 {
		bits, size = int64(500e3*math.Pow(20, r.Float64())), 5_000+r.IntN(200_000)
	}
	c := newCluster(t, sim.Config{
		MTU: full, PropDelay: time.Duration(250+r.IntN(5000)) * time.Microsecond, Seed: seed,
		PortBuffer: 30_000 + r.IntN(90_000), Faults: sim.Faults{Loss: loss},
		WireOverhead: sim.EthernetOverhead, MinWire: sim.EthernetMinWire, Trace: tracer(t),
	})
	h := newHop(c)
	c.add(erpc.Config{}, sim.EndpointConfig{})
	c.add(erpc.Config{}, sim.EndpointConfig{})
	c.must(5*time.Second, echo(c))
	l := newLoad(c, calls, size)
	l.mayFail = true // of the load
	if err := c.net.SetLinkBits(1, bits); err != nil {
		t.Fatal(err)
	}
	agreed := l.session.Params().PerPacket + wire.HeaderSize
	for range 50 {
		c.run(100 * time.Millisecond)
		got := l.session.Params().PerPacket + wire.HeaderSize
		if l.session.Err() == nil && got != agreed {
			t.Errorf("seed %d: packets of %d bytes in place of %d, with %d calls of %d bytes at %d bit/s",
				seed, got, agreed, calls, size, bits)
			break
		}
	}
	if got := h.largest(); size > 2*agreed && got != agreed {
		t.Errorf("seed %d: datagrams of %d bytes in place of %d", seed, got, agreed)
	}
	l.left = true
	c.nodes[0].hangUp(true)
	c.nodes[1].hangUp(true)
}
