package lending

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
	"github.com/userspace-rpc/erpc/transport/sim"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// strict fails the test at a violation. The conformance suite changes what it sent as soon
// as it may.
func strict(tb testing.TB, inner transport.Transport, cfg Config) *Transport {
	tb.Helper()
	cfg.Report = func(v Violation) { tb.Error(v) }
	t, err := New(inner, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// simulated runs the suite in a simulated network; the clock moves where the suite would
// block.
func simulated(t *testing.T, cfg Config, wrap func(*Transport) transport.Transport) {
	var n *sim.Network
	node := 0
	open := func(tb testing.TB) transport.Transport {
		e, err := n.NewEndpoint(sim.EndpointConfig{Node: node})
		if err != nil {
			tb.Fatal(err)
		}
		node++
		cfg := cfg
		cfg.After = func(d time.Duration, fn func()) { n.After(d, fn) }
		return wrap(strict(tb, e, cfg))
	}
	advance := func() {
		for range 50 { // most events are delays
			n.Step()
		}
	}
	conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
		var err error
		if n, err = sim.New(sim.Config{PropDelay: 1000}); err != nil {
			tb.Fatal(err)
		}
		node = 0
		return open(tb), open(tb)
	}, conformance.WithAdvance(advance), conformance.WithThird(open))
}

// long leaves out all but one variant in short tests.
func long(t *testing.T, name string) {
	if testing.Short() && name != "small ring" {
		t.Skip("short")
	}
}

func itself(t *Transport) transport.Transport { return t }

func TestConformanceSim(t *testing.T) {
	for name, cfg := range map[string]Config{
		"delay":      {Delay: time.Microsecond, Jitter: 50 * time.Microsecond},
		"small ring": {Ring: 7, Inline: 24},
	} {
		t.Run(name, func(t *testing.T) {
			long(t, name)
			simulated(t, cfg, itself)
		})
	}
}

// TestConformanceLate: the suite flushes what it sent before it goes on, unless the
// transport copies. This one says so, and packets leave when their time has come.
func TestConformanceLate(t *testing.T) {
	for name, cfg := range map[string]Config{
		"delay":      {Delay: time.Microsecond, Jitter: 50 * time.Microsecond},
		"small ring": {Jitter: 10 * time.Microsecond, Ring: 7},
	} {
		t.Run(name, func(t *testing.T) {
			long(t, name)
			var all []*Transport
			simulated(t, cfg, func(tr *Transport) transport.Transport {
				all = append(all, tr)
				return newCopier(tr)
			})
			late := uint64(0)
			for _, tr := range all {
				late += tr.Counts().Packets - tr.Counts().Flushed
			}
			if late < 20_000 { // some cases flush all the same
				t.Errorf("only %d packets left without Flush", late)
			}
		})
	}
}

func TestConformanceUDP(t *testing.T) {
	open := func(tb testing.TB) transport.Transport {
		c, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			tb.Fatal(err)
		}
		return strict(tb, c, Config{Ring: 7, Inline: 24})
	}
	conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
		return open(tb), open(tb)
	})
}

// copier lends copies, out of a ring of memory in which each is used again long after it
// has left.
type copier struct {
	*Transport
	items []transport.TxItem
	mem   []byte
	next  int
}

const copies = 2 * DefaultRing

func newCopier(t *Transport) *copier {
	return &copier{Transport: t, mem: make([]byte, copies*t.caps.MTU)}
}

func (c *copier) Caps() transport.Caps {
	caps := c.Transport.Caps()
	caps.TxCopies = true
	return caps
}

func (c *copier) TxBurst(items []transport.TxItem) (int, error) {
	c.items = c.items[:0]
	for i := range items {
		it := items[i]
		if len(it.Head)+len(it.Data) <= c.caps.MTU {
			mem := c.mem[(c.next+i)%copies*c.caps.MTU:]
			n := copy(mem, it.Head)
			n += copy(mem[n:], it.Data)
			it.Head, it.Data = mem[:n/3:n/3], mem[n/3:n]
		}
		c.items = append(c.items, it)
	}
	n, err := c.Transport.TxBurst(c.items)
	c.next += n
	return n, err
}
