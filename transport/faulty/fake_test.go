package faulty

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

const (
	fakeMTU  = 1400
	fakeRing = 512
)

// fakeNet is a perfect network in memory.
type fakeNet struct {
	mu     sync.Mutex
	ports  map[transport.Addr]*fake
	copies bool // TxCopies; otherwise packets leave the caller's memory in Flush
}

type packet struct {
	data []byte
	from transport.Addr
}

// fake is an endpoint of a fakeNet. Its queue is a ring whose buffers a view keeps
// until the next RxBurst.
type fake struct {
	transport.Base
	net           *fakeNet
	addr          transport.Addr
	cond          sync.Cond
	ring          [fakeRing]packet
	head, n, held int
	room          int // items that each TxBurst takes at most; -1 is no limit
	unsent        []transport.TxItem
	first         *byte         // of the last packet given to TxBurst
	waited        time.Duration // timeout of the last Wait
	woken, closed bool
	stats         transport.Stats
}

func newFakeNet(copies bool) *fakeNet {
	return &fakeNet{ports: map[transport.Addr]*fake{}, copies: copies}
}

func (w *fakeNet) open() *fake {
	w.mu.Lock()
	defer w.mu.Unlock()
	ap := netip.AddrPortFrom(netip.IPv6Loopback(), uint16(len(w.ports)+1))
	f := &fake{net: w, addr: transport.AddrFrom(ap, 0), room: -1}
	f.cond.L = &w.mu
	for i := range f.ring {
		f.ring[i].data = make([]byte, 0, fakeMTU)
	}
	f.unsent = make([]transport.TxItem, 0, fakeRing)
	w.ports[f.addr] = f
	return f
}

func (f *fake) Caps() transport.Caps {
	return transport.Caps{Name: "fake", MTU: fakeMTU, RxRing: fakeRing, TxCopies: f.net.copies}
}

// Path differs between destinations with even and odd ports.
// IsPrivate is the Private of Path.
func (f *fake) IsPrivate(from transport.Addr) bool { return f.Path(from).Private }

func (f *fake) Path(dst transport.Addr) transport.Path {
	odd := dst.Port%2 == 1
	return transport.Path{
		MTU: fakeMTU, HostDelay: time.Duration(dst.Port),
		Shared: !odd, Checksummed: odd, Private: !odd,
	}
}

func (f *fake) LocalAddr() transport.Addr { return f.addr }

func (f *fake) Resolve(text string) (transport.Addr, error) {
	f.net.mu.Lock()
	defer f.net.mu.Unlock()
	if f.closed {
		return transport.Addr{}, transport.ErrClosed
	}
	ap, err := netip.ParseAddrPort(text)
	if err != nil {
		return transport.Addr{}, transport.ErrBadAddress
	}
	return transport.AddrFrom(ap, 0), nil
}

func (f *fake) TxBurst(items []transport.TxItem) (int, error) {
	f.net.mu.Lock()
	defer f.net.mu.Unlock()
	if f.closed {
		return 0, transport.ErrClosed
	}
	if f.room >= 0 && len(items) > f.room {
		items = items[:f.room]
		f.stats.TxStalls++
	}
	for i := range items {
		it := &items[i]
		if len(it.Head) > 0 {
			f.first = &it.Head[0]
		}
		size := len(it.Head) + len(it.Data)
		if size > fakeMTU || !it.Dst.IsValid() {
			f.stats.TxDropped++
			continue
		}
		f.stats.TxPackets++
		f.stats.TxBytes += uint64(size)
		f.unsent = append(f.unsent, *it)
	}
	if f.net.copies {
		f.flush()
	}
	return len(items), nil
}

func (f *fake) Flush() {
	f.net.mu.Lock()
	defer f.net.mu.Unlock()
	f.flush()
}

func (f *fake) flush() {
	for _, it := range f.unsent {
		dst := f.net.ports[it.Dst]
		if dst == nil || dst.held+dst.n == fakeRing {
			continue
		}
		p := &dst.ring[(dst.head+dst.n)%fakeRing]
		p.data = append(append(p.data[:0], it.Head...), it.Data...)
		p.from = f.addr
		dst.n++
		dst.cond.Broadcast()
	}
	f.unsent = f.unsent[:0]
}

func (f *fake) RxBurst(pkts []transport.RxPacket) (int, error) {
	f.net.mu.Lock()
	defer f.net.mu.Unlock()
	if f.closed {
		return 0, transport.ErrClosed
	}
	n := min(len(pkts), f.n)
	for i := range pkts[:n] {
		p := &f.ring[(f.head+i)%fakeRing]
		pkts[i] = transport.RxPacket{
			Data: p.data, From: p.from,
			Shared: f.Path(p.from).Shared && len(p.data) > transport.PrivateBytes,
		}
		f.stats.RxBytes += uint64(len(p.data))
	}
	f.stats.RxPackets += uint64(n)
	f.head, f.n, f.held = (f.head+n)%fakeRing, f.n-n, n
	return n, nil
}

func (f *fake) Wait(timeout time.Duration) error {
	f.net.mu.Lock()
	defer f.net.mu.Unlock()
	f.waited = timeout
	expired := false
	if timeout >= 0 {
		timer := time.AfterFunc(timeout, func() {
			f.net.mu.Lock()
			defer f.net.mu.Unlock()
			expired = true
			f.cond.Broadcast()
		})
		defer timer.Stop()
	}
	for !f.closed && !f.woken && !expired && f.n == 0 {
		f.cond.Wait()
	}
	f.woken = false
	if f.closed {
		return transport.ErrClosed
	}
	return nil
}

func (f *fake) Wake() {
	f.net.mu.Lock()
	defer f.net.mu.Unlock()
	f.woken = true
	f.cond.Broadcast()
}

func (f *fake) Stats() transport.Stats {
	f.net.mu.Lock()
	defer f.net.mu.Unlock()
	return f.stats
}

func (f *fake) Close() error {
	f.net.mu.Lock()
	defer f.net.mu.Unlock()
	f.closed = true
	delete(f.net.ports, f.addr)
	f.cond.Broadcast()
	return nil
}

// pair is a decorated sender or receiver and its peer, with a clock under control.
type pair struct {
	t    testing.TB
	a, b *Transport // cfg applies to both, so a test sets TX or RX
	fa   *fake      // under a
	now  Time
}

func newPair(t testing.TB, cfg Config, copies bool) *pair {
	w := newFakeNet(copies)
	p := &pair{t: t, fa: w.open()}
	cfg.Clock = func() Time { return p.now }
	p.a, p.b = decorate(t, p.fa, cfg), decorate(t, w.open(), cfg)
	return p
}

func decorate(t testing.TB, inner transport.Transport, cfg Config) *Transport {
	t.Helper()
	d, err := New(inner, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// receive returns the numbers of all packets that b has now, and hands each to check.
func (p *pair) receive(check func(data []byte)) {
	p.t.Helper()
	var pkts [16]transport.RxPacket
	for {
		n, err := p.b.RxBurst(pkts[:])
		if err != nil {
			p.t.Fatal(err)
		}
		if n == 0 {
			return
		}
		for _, q := range pkts[:n] {
			if q.From != p.a.LocalAddr() {
				p.t.Fatalf("packet is from %v", q.From)
			}
			check(q.Data)
		}
	}
}
