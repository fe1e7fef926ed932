package conformance

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// The reference transport: endpoints in one process, a ring of buffers each. It is
// as plain as can be, and breaks in the ways that a mutant asks for.

const (
	memMTU  = 1400
	memRing = 400
)

// mutant names the ways in which the reference transport can be wrong.
type mutant struct {
	dropFull, dropLast, join, cut, damage, duplicate, reorder bool
	loseData, wrongFrom, staleFrom, staleCE, sizeLimit256     bool
	staleShared                                               bool
	writeTx, refTx, earlyView, noArrivalWake, arrivalInView   bool
	rxLosesRest, rxOverrun, emptyRxLoses, swapDestinations    bool
	ignoreWake, stickyWake, wakeOnlyWaiting, waitForArrival   bool
	noTimeout, closeKeepsWait, noErrTx, noErrRx, noErrWait    bool
	noErrResolve, closeTwiceError, sendsClosed                bool
	bigStops, bigSent, bigUncounted, bigRefused, zeroSent     bool
	deadBreaks, deadStops, badAddrOK, badAddrPanics, oddError bool
	resolveWrong, allocTx, allocRx, leak, noAddr, capsChange  bool
	kindOfAll, kindClosed, kindSlice, kindChange              bool
	statTx, statRx, statBytes, stall, sameAddr, freesPeer     bool
	pathLarge, pathNone, pathSmall, pathChange, pathDelay     bool
	pathPanics, pathClosed, pathFrees, pathPrivate            bool
	napDeaf, napClosed, napFickle, stepsAlone, registerFails  bool
	noHint, hintOther, hintMany, hintAlive                    bool
	renewIdle, renewFails, addrsOther                         bool
}

type memNet struct {
	mu    sync.Mutex
	ports map[transport.Addr]*mem
	last  uint32
}

type slot struct {
	buf  []byte
	n    int
	from transport.Addr
}

type mem struct {
	transport.Base
	net      *memNet
	m        mutant
	local    transport.Addr
	cond     sync.Cond
	ring     []slot // oldest at head
	head     int    // first slot not returned yet
	held     int    // slots before head whose views are still valid
	n        int    // slots waiting
	woken    bool
	waiting  bool
	arrivals uint64
	broken   bool
	closed   bool
	stats    transport.Stats
	kept     []transport.TxItem
	changes  int              // of Caps or Path
	gone     []transport.Addr // for Hints
	naps     int
}

func newMemNet() *memNet { return &memNet{ports: map[transport.Addr]*mem{}} }

func (w *memNet) open(m mutant) *mem {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == 0 || !m.sameAddr {
		w.last++
	}
	t := &mem{net: w, m: m, ring: make([]slot, memRing)}
	t.local = transport.AddrFrom(netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(w.last)),
		0)
	t.cond.L = &w.mu
	for i := range t.ring {
		t.ring[i].buf = make([]byte, memMTU+1)
	}
	w.ports[t.local] = t
	if m.leak {
		stop := make(chan struct{})
		leaks = append(leaks, stop)
		go func() { <-stop }()
	}
	return t
}

// leaks end the goroutines that the leaking mutant leaves.
var leaks []chan struct{}

func (t *mem) Caps() transport.Caps {
	c := transport.Caps{Name: "mem", MTU: memMTU, RxRing: memRing, TxCopies: true, ECN: true}
	if t.m.capsChange {
		t.changes++
		c.RxRing += t.changes
	}
	return c
}

func (t *mem) Path(dst transport.Addr) transport.Path {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	p := transport.Path{MTU: memMTU, Checksummed: true, Private: t.m.pathPrivate}
	switch {
	case t.m.pathLarge:
		p.MTU++
	case t.m.pathNone && t.net.ports[dst] == nil:
		p.MTU = 0
	case t.m.pathSmall:
		p.MTU--
	case t.m.pathChange:
		t.changes++
		p.HostDelay = time.Duration(t.changes)
	case t.m.pathDelay:
		p.HostDelay = -1
	case t.m.pathPanics && !dst.IsValid():
		panic("no such destination")
	case t.m.pathClosed && t.closed:
		panic("closed")
	case t.m.pathFrees && t.held > 0:
		clear(t.ring[(t.head+memRing-1)%memRing].buf)
	}
	return p
}

func (t *mem) Kind(self transport.Transport) any {
	switch {
	case t.m.kindSlice:
		return []int{}
	case t.m.kindChange:
		t.changes++
		return t.changes
	case self != transport.Transport(t) && !t.m.kindOfAll, t.closed && !t.m.kindClosed:
		return nil
	}
	return memMTU
}

func (t *mem) LocalAddr() transport.Addr {
	if t.m.noAddr {
		return transport.Addr{}
	}
	return t.local
}

func (t *mem) Resolve(text string) (transport.Addr, error) {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if t.closed && !t.m.noErrResolve {
		return transport.Addr{}, transport.ErrClosed
	}
	ap, err := netip.ParseAddrPort(text)
	switch {
	case err == nil && t.m.resolveWrong:
		return transport.AddrFrom(netip.AddrPortFrom(ap.Addr(), ap.Port()+1), 0), nil
	case err == nil:
		return transport.AddrFrom(ap, 0), nil
	case t.m.badAddrOK && text == ":":
		return transport.Addr{}, nil
	case t.m.badAddrPanics && text == "":
		_ = text[0]
	case t.m.oddError:
		return transport.Addr{}, err
	}
	return transport.Addr{}, transport.ErrBadAddress
}

func (t *mem) TxBurst(items []transport.TxItem) (int, error) {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if t.closed && !t.m.sendsClosed {
		if t.m.noErrTx {
			return 0, nil
		}
		return 0, transport.ErrClosed
	}
	if t.m.stall && len(items) > 5 {
		items = items[:5] // and does not count it
	}
	if t.m.allocTx {
		t.kept = append([]transport.TxItem(nil), items...)
	}
	if t.m.sizeLimit256 && len(items) > 256 {
		items = append(items[:256:256], items[257:]...)
	}
	for i := range items {
		it := &items[i]
		if t.m.reorder && i%2 == 0 && i+1 < len(items) {
			it = &items[i+1]
		} else if t.m.reorder && i%2 == 1 {
			it = &items[i-1]
		}
		if t.m.swapDestinations && i > 0 && items[i-1].Dst != it.Dst {
			swapped := *it
			swapped.Dst, it = items[i-1].Dst, &swapped
		}
		if t.m.bigRefused && len(it.Head)+len(it.Data) > memMTU {
			t.stats.TxStalls++
			return i, nil
		}
		if !t.tx(it, items, i) {
			break
		}
	}
	if t.m.sizeLimit256 && len(items) == 299 {
		return 300, nil
	}
	return len(items), nil
}

// tx sends one packet. False means that this burst is over, in a wrong way.
func (t *mem) tx(it *transport.TxItem, items []transport.TxItem, i int) bool {
	size := len(it.Head) + len(it.Data)
	if size > memMTU || !it.Dst.IsValid() {
		if size > memMTU && t.m.bigSent {
			size = memMTU
			t.deliver(t.net.ports[it.Dst], it, size)
		}
		if !it.Dst.IsValid() && t.m.zeroSent {
			t.stats.TxPackets++
			return true
		}
		if !t.m.bigUncounted {
			t.stats.TxDropped++
		}
		return !t.m.bigStops
	}
	t.stats.TxPackets++
	if t.m.statTx && i == 40 {
		t.stats.TxPackets++
	}
	t.stats.TxBytes += uint64(size)
	if t.m.statBytes {
		t.stats.TxBytes += 24
	}
	dst := t.net.ports[it.Dst]
	if dst == nil && !t.m.noHint && len(t.gone) == 0 {
		t.gone = append(t.gone, it.Dst)
	}
	if t.m.hintAlive {
		t.gone = append(t.gone[:0], it.Dst)
	}
	if dst == nil {
		t.broken = t.broken || t.m.deadBreaks
		return !t.m.deadStops
	}
	if t.broken || t.m.dropFull && size == memMTU || t.m.dropLast && i > 0 && i == len(items)-1 {
		return true
	}
	if t.m.join && i > 0 && i == len(items)-1 && size < 100 {
		if last := &dst.ring[(dst.head+dst.n-1)%memRing]; dst.n > 0 && last.n+size <= memMTU {
			last.n += copy(last.buf[last.n:], it.Head)
			return true
		}
	}
	t.deliver(dst, it, size)
	if t.m.duplicate && i == 9 {
		t.deliver(dst, it, size)
	}
	if t.m.writeTx && size > 300 {
		it.Head[1] ^= 1
	}
	return true
}

func (t *mem) deliver(dst *mem, it *transport.TxItem, size int) {
	if dst.n+dst.held == memRing {
		dst.stats.RxDropped++
		return
	}
	s := &dst.ring[(dst.head+dst.n)%memRing]
	if dst.m.arrivalInView && dst.held > 0 {
		copy(dst.ring[(dst.head+memRing-1)%memRing].buf, it.Head)
	}
	s.n = copy(s.buf, it.Head)
	if !t.m.loseData || len(it.Head) > 0 {
		s.n += copy(s.buf[s.n:], it.Data)
	} else {
		clear(s.buf[:size])
		s.n = size
	}
	s.from = t.local
	if t.m.cut && s.n == 129 {
		s.n--
	}
	if t.m.damage && s.n == 97 {
		s.buf[96] ^= 0x80
	}
	if t.m.refTx {
		s.buf = it.Head[:max(size, len(it.Head)):max(size, cap(it.Head))]
	}
	dst.n++
	dst.arrivals++
	if dst.m.waitForArrival {
		dst.woken = true
	}
	if !dst.m.noArrivalWake {
		dst.cond.Broadcast()
	}
}

func (t *mem) Flush() {}

func (t *mem) RxBurst(pkts []transport.RxPacket) (int, error) {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if t.closed {
		if t.m.noErrRx {
			return 0, nil
		}
		return 0, transport.ErrClosed
	}
	t.held = 0
	n := min(len(pkts), t.n)
	for i := range pkts[:n] {
		s := &t.ring[(t.head+i)%memRing]
		if t.m.allocRx {
			s.buf = append([]byte(nil), s.buf...)
		}
		p := &pkts[i]
		p.Data = s.buf[:s.n]
		if !t.m.staleFrom {
			p.From = s.from
		}
		if t.m.wrongFrom {
			p.From.Port++
		}
		if !t.m.staleCE {
			p.CE = false
		}
		if !t.m.staleShared {
			p.Shared = false
		}
		t.stats.RxBytes += uint64(s.n)
	}
	t.stats.RxPackets += uint64(n)
	t.head, t.n = (t.head+n)%memRing, t.n-n
	if !t.m.earlyView {
		t.held = n
	} else if n > 0 && t.n == 0 {
		t.head = (t.head + memRing - n) % memRing // next arrival takes the same memory
	}
	if t.m.rxLosesRest && n > 0 || t.m.emptyRxLoses && len(pkts) == 0 {
		t.n = 0
	}
	if t.m.rxOverrun && len(pkts) == 1 && t.n > 0 {
		n++
	}
	if t.m.statRx && n > 1 {
		t.stats.RxPackets--
	}
	return n, nil
}

func (t *mem) Wait(timeout time.Duration) error { return t.sleep(timeout, false) }

func (t *mem) Nap(timeout time.Duration) error {
	if t.naps++; t.m.napFickle && t.naps == 1 {
		return transport.ErrUnsupported
	}
	err := t.sleep(timeout, true)
	if t.m.napClosed {
		return nil
	}
	return err
}

func (t *mem) PrepareWait() (idle bool, err error) {
	if t.m.stepsAlone {
		return true, nil
	}
	return t.Base.PrepareWait()
}

func (t *mem) Register([]byte) (key uint32, err error) {
	if t.m.registerFails {
		return 0, errors.New("no such memory")
	}
	return 1, nil
}

func (t *mem) Renew(transport.Addr) error {
	switch {
	case t.m.renewIdle:
		return nil
	case t.m.renewFails:
		return errors.New("no such port")
	}
	return transport.ErrUnsupported
}

func (t *mem) Addrs(string) []transport.Addr {
	if t.m.addrsOther {
		return []transport.Addr{{Port: 99}}
	}
	return nil
}

func (t *mem) Hints(hints []transport.Hint) int {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if t.m.hintMany {
		return len(t.gone) * (len(hints) + 1)
	}
	if t.closed || len(t.gone) == 0 || len(hints) == 0 {
		return 0
	}
	hints[0] = transport.Hint{Kind: transport.HintUnreachable, To: t.gone[0]}
	if t.m.hintOther {
		hints[0].To.Port++
	}
	t.gone = t.gone[:0]
	return 1
}

// sleep is Wait, or Nap, which packets do not end.
func (t *mem) sleep(timeout time.Duration, nap bool) error {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	expired := false
	if timeout >= 0 && !t.m.noTimeout {
		timer := time.AfterFunc(timeout, func() {
			t.net.mu.Lock()
			defer t.net.mu.Unlock()
			expired = true
			t.cond.Broadcast()
		})
		defer timer.Stop()
	}
	t.waiting = true
	defer func() { t.waiting = false }()
	for !t.closed && !t.woken && !expired && (t.n == 0 || nap || t.m.waitForArrival) ||
		nap && t.m.napDeaf && !t.closed && !expired {
		t.cond.Wait()
	}
	if !t.m.stickyWake {
		t.woken = false
	}
	if t.closed && !t.m.noErrWait {
		return transport.ErrClosed
	}
	return nil
}

func (t *mem) Wake() {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if t.m.ignoreWake || t.m.wakeOnlyWaiting && !t.waiting {
		return
	}
	t.woken = true
	t.cond.Broadcast()
}

func (t *mem) Stats() transport.Stats {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	return t.stats
}

func (t *mem) Close() error {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if t.closed && t.m.closeTwiceError {
		return errors.New("bad file descriptor")
	}
	t.closed = true
	delete(t.net.ports, t.local)
	if t.m.freesPeer {
		for _, p := range t.net.ports {
			for i := range p.ring {
				clear(p.ring[i].buf)
			}
		}
	}
	if !t.m.closeKeepsWait {
		t.cond.Broadcast()
	}
	return nil
}

func openMem(m mutant) OpenFunc {
	return func(tb testing.TB) (a, b transport.Transport) {
		w := newMemNet()
		return w.open(m), w.open(m)
	}
}
