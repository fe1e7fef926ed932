package simtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/lending"
	"github.com/userspace-rpc/erpc/transport/sim"
	"github.com/userspace-rpc/erpc/wire"
)

// lendInline is up to what size the transports of these tests copy packet.Tx.Head, in bytes: all
// of it, as the contract of transports has it.
const lendInline = 1 << 16

// lends reports whether the nodes of a seed run on transports that lend: those of a third do.
func lends(seed uint64) bool { return seed%3 == 1 }

// lender decides how the nodes of a cluster lend. Its random source is its own, so that
// clusters that do not lend make the same decisions as without it.
type lender struct {
	on     bool // before a node starts
	inline int  // bytes; see lending.Config
	r      *rand.Rand
	ring   int
	delay  time.Duration
	lent   []*lending.Transport // of all nodes, in all incarnations
}

func newLender(seed uint64) lender {
	r := rand.New(rand.NewPCG(seed, 78))
	ring, delay := pick(r, 64, 256, 4096), pick[time.Duration](r, 1, 20, 200)*time.Microsecond
	return lender{r: r, ring: ring, delay: delay}
}

// lend returns the endpoint of n as a transport that lends. A fault that the
// simulation injects reaches the endpoint itself: the adapter goes on while the process is stopped.
func (c *cluster) lend(n *node, ep *sim.Endpoint) *lending.Transport {
	l := &c.lender
	tr, err := lending.New(ep, lending.Config{
		Seed: l.r.Uint64(), Ring: l.ring, Inline: l.inline, Jitter: l.delay,
		After:  func(d time.Duration, fn func()) { c.net.After(d, fn) },
		Report: func(v lending.Violation) { c.fail("node %d: %s", n.id, violated(&v)) },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	l.lent = append(l.lent, tr)
	return tr
}

// violated describes a violation with the headers that it shows.
func violated(v *lending.Violation) string {
	text := v.String()
	for _, b := range [][]byte{v.Then[:], v.Now[:]} {
		var h wire.Header
		if h.Parse(b[:min(v.Size, len(b))]) == nil {
			text += fmt.Sprintf("\n\t%v of type %d, request %d, packet %d, session %d: %+v",
				h.Type, h.ReqType, h.ReqNum, h.PktNum, h.Session, h)
		}
	}
	return text
}

// spoil writes over a buffer that the application got back, as it may, before it is
// freed. So a buffer that came back too early is noticed even if nobody needs it again.
func (c *cluster) spoil(b *erpc.MsgBuffer) {
	if c.lender.on {
		d := b.Data()
		for i := range d {
			d[i] = spoilt
		}
	}
}

const spoilt = 0x5A

// silent is a testing.TB that only notes failures.
type silent struct {
	testing.TB
	text []string
}

func (s *silent) Errorf(format string, args ...any) {
	s.text = append(s.text, fmt.Sprintf(format, args...))
}

// lendingPair is pair on transports that lend.
func lendingPair(t *testing.T, inline int) (c *cluster, client, server *node) {
	c = newCluster(t, sim.Config{PropDelay: 5000, Trace: tracer(t)})
	c.lender.on, c.lender.inline = true, inline
	cfg := erpc.Config{Checksum: true}
	return c, c.add(cfg, sim.EndpointConfig{}), c.add(cfg, sim.EndpointConfig{})
}

// TestLending: RPCs of all kinds and sizes over transports that lend all but short pieces.
func TestLending(t *testing.T) {
	c, _, _ := lendingPair(t, 1500)
	calls := several(c, 40)
	c.must(time.Second, calls...)
	want(t, nil, calls...)
	for i, tr := range c.lender.lent {
		if n := tr.Counts(); n.Packets < 100 || n.Flushed > n.Packets/2 {
			t.Errorf("node %d: %+v", i, n)
		}
	}
	c.closeAll()
}

// TestLendingFails: a buffer that is changed while it is lent fails the test.
func TestLendingFails(t *testing.T) {
	c, client, server := lendingPair(t, 0)
	quiet := &silent{TB: t}
	c.t = quiet
	p := make([]byte, 100)
	h := wire.Header{Type: wire.TypeReq, ReqType: typeEcho, MsgSize: 76, Session: 3, ReqNum: 41}
	h.Put(p, 7)
	n, err := c.lender.lent[0].TxBurst([]transport.TxItem{{Dst: server.ep.LocalAddr(), Head: p}})
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
	h.ReqNum++
	h.Put(p, 7)
	c.run(time.Millisecond)
	if len(quiet.text) != 1 || c.bad != 1 {
		t.Fatalf("%d failures: %q", c.bad, quiet.text)
	}
	for _, part := range []string{
		"node 0: packet 0 of 100 bytes", "REQ of type 1, request 41, packet 0", "request 42",
	} {
		if !strings.Contains(quiet.text[0], part) {
			t.Errorf("%q does not say %q", quiet.text[0], part)
		}
	}
	c.t = t
	client.close()
	server.close()
}

// TestLendingSpoils: a buffer that came back is written over before it is freed, so that one
// that came back too early is noticed.
func TestLendingSpoils(t *testing.T) {
	if invariants.Enabled {
		t.Skip("freed buffers are written over anyway")
	}
	c, client, _ := lendingPair(t, 1500)
	k := echo(c)
	c.must(time.Second, k)
	want(t, nil, k)
	var again []*erpc.MsgBuffer
	for range 2 { // request and response, last freed first
		b, err := client.rpc.Alloc(64)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Data(), bytes.Repeat([]byte{spoilt}, 64)) {
			t.Errorf("a buffer that came back holds %x", b.Data())
		}
		again = append(again, b)
	}
	for _, b := range again {
		b.Free()
	}
	c.closeAll()
}
