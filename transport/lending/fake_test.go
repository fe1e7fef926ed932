package lending

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

const fakeMTU = 1400

// fake is a transport that notes what it is given.
type fake struct {
	transport.Transport // nil: panics at what the tests do not need
	sent                []packet
	room                int   // packets that it takes yet; negative is no limit
	offers              int   // calls of TxBurst with something
	err                 error // of TxBurst
	flushes             int
	waits               []time.Duration
	onWait              func()
	stats               transport.Stats
	closed              bool
}

type packet struct {
	dst  transport.Addr
	data []byte
}

func (f *fake) Caps() transport.Caps {
	return transport.Caps{Name: "fake", MTU: fakeMTU, RxRing: 64, TxCopies: true, ECN: true}
}

func (f *fake) TxBurst(items []transport.TxItem) (int, error) {
	f.offers++
	if f.err != nil {
		return 0, f.err
	}
	if f.room >= 0 && len(items) > f.room {
		items = items[:f.room]
		f.stats.TxStalls++
	}
	for i := range items {
		if !items[i].Dst.IsValid() {
			f.stats.TxDropped++
			continue
		}
		f.stats.TxPackets++
		data := append(bytes.Clone(items[i].Head), items[i].Data...)
		f.sent = append(f.sent, packet{items[i].Dst, data})
	}
	if f.room >= 0 {
		f.room -= len(items)
	}
	return len(items), nil
}

func (f *fake) Wait(d time.Duration) error {
	f.waits = append(f.waits, d)
	if f.onWait != nil {
		f.onWait()
	}
	return nil
}

func (f *fake) PrepareWait() (idle bool, err error) { return true, nil }

func (f *fake) Flush()                                    { f.flushes++ }
func (f *fake) RxBurst([]transport.RxPacket) (int, error) { return 0, nil }
func (f *fake) Stats() transport.Stats                    { return f.stats }
func (f *fake) Close() error                              { f.closed = true; return nil }
func (f *fake) Path(dst transport.Addr) transport.Path {
	return transport.Path{MTU: int(dst.Port)}
}
func (f *fake) Register(mem []byte) (uint32, error)         { return uint32(len(mem)), nil }
func (f *fake) Unregister(mem []byte, key uint32)           { clear(mem) }
func (f *fake) WaitFDs() []int                              { return []int{7} }
func (f *fake) FinishWait(ready uint32) error               { f.flushes += int(ready); return nil }
func (f *fake) Resolve(text string) (transport.Addr, error) { return addr(len(text)), nil }
func (f *fake) LocalAddr() transport.Addr                   { return addr(1) }

func addr(port int) transport.Addr {
	return transport.AddrFrom(netip.AddrPortFrom(netip.IPv6Loopback(), uint16(port)), 0)
}

// clock is virtual time with timers.
type clock struct {
	now    time.Duration
	timers []timer
}

type timer struct {
	at time.Duration
	fn func()
}

func (c *clock) after(d time.Duration, fn func()) {
	c.timers = append(c.timers, timer{c.now + d, fn})
}

// advance lets d pass.
func (c *clock) advance(d time.Duration) {
	for end := c.now + d; ; {
		next := -1
		for i := range c.timers {
			if c.timers[i].at <= end && (next < 0 || c.timers[i].at < c.timers[next].at) {
				next = i
			}
		}
		if next < 0 {
			c.now = end
			return
		}
		x := c.timers[next]
		c.timers = slices.Delete(c.timers, next, next+1)
		c.now = x.at
		x.fn()
	}
}

// rig is a lending transport over a fake one, and what it reported.
type rig struct {
	*Transport
	tb    testing.TB
	under *fake
	clock clock
	bad   []Violation
	next  int // number of the next packet
}

// newRig sets Report, and After to a clock of its own unless the transport counts calls.
func newRig(tb testing.TB, cfg Config) *rig {
	r := &rig{tb: tb, under: &fake{room: -1}}
	cfg.Report = func(v Violation) { r.bad = append(r.bad, v) }
	if cfg.Calls == 0 {
		cfg.After = r.clock.after
	}
	t, err := New(r.under, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	r.Transport = t
	return r
}

// makeContent returns the packet number i, of a size that depends on i.
func makeContent(i int) []byte {
	p := make([]byte, 8+(i*131)%(fakeMTU-7))
	binary.LittleEndian.PutUint64(p, uint64(i))
	for j := 8; j < len(p); j++ {
		p[j] = byte(i*31 + j*7)
	}
	return p
}

// send lends n packets to ports from 1 on in turn, and returns them. All must be taken.
func (r *rig) send(n, ports int) (items []transport.TxItem) {
	r.tb.Helper()
	for range n {
		c := makeContent(r.next)
		cut := min(len(c), r.next%40)
		dst := addr(1 + r.next%ports)
		items = append(items, transport.TxItem{Dst: dst, Head: c[:cut:cut], Data: c[cut:]})
		r.next++
	}
	if took, err := r.TxBurst(items); took != n || err != nil {
		r.tb.Fatalf("TxBurst of %d = %d, %v", n, took, err)
	}
	return items
}

// left checks that the packets with numbers below n have left, intact and in order, and no others.
func (r *rig) left(n int) {
	r.tb.Helper()
	if len(r.under.sent) != n {
		r.tb.Fatalf("%d packets have left, want %d", len(r.under.sent), n)
	}
	for i, p := range r.under.sent {
		if !bytes.Equal(p.data, makeContent(i)) {
			r.tb.Fatalf("packet %d is another", i)
		}
	}
	if c := r.Counts(); int(c.Lent) != r.next-n {
		r.tb.Fatalf("%d packets are lent, want %d", c.Lent, r.next-n)
	}
}

// fine checks that there was no violation.
func (r *rig) fine() {
	r.tb.Helper()
	if len(r.bad) > 0 || r.Counts().Violations > 0 {
		r.tb.Fatalf("%d violations, the first: %v", len(r.bad), r.bad[0])
	}
}
