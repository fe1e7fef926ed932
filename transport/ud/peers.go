package ud

import (
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/transport"
)

// way is how a host is reached: what an address handle is made of.
type way struct {
	gid verbs.GID
	lid uint16
}

// handle is an address handle that the peers on one host share.
type handle struct {
	way  way
	ah   *verbs.AH
	refs int
}

// handles makes address handles, at most one for each way. Safe from any goroutine.
type handles struct {
	pd   *verbs.PD
	attr verbs.AHAttr // without the peer

	mu     sync.Mutex
	made   map[way]*handle
	closed bool
	making sync.WaitGroup // begun before closed
}

// get returns the handle of w, making it if need be. The caller owes a put.
func (h *handles) get(w way) (*handle, error) {
	if x := h.share(w, nil); x != nil {
		return x, nil
	}
	if !h.begin() {
		return nil, transport.ErrClosed
	}
	defer h.making.Done()
	attr := h.attr
	attr.DLID = uint32(w.lid)
	if attr.Global != 0 {
		attr.GID, attr.DLID = w.gid, 0
	}
	ah, err := h.pd.CreateAH(attr) // may take long
	if err != nil {
		return nil, err
	}
	x := h.share(w, ah)
	if x == nil {
		ah.Close()
		return nil, transport.ErrClosed
	}
	if x.ah != ah {
		ah.Close() // somebody else was faster
	}
	return x, nil
}

// begin reports whether a handle may be made. The caller owes making a Done.
func (h *handles) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.making.Add(1)
	}
	return !h.closed
}

// share returns the handle of w with one more reference; if there is none, made of ah.
func (h *handles) share(w way, ah *verbs.AH) *handle {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.made[w]
	if x == nil {
		if ah == nil || h.closed {
			return nil
		}
		x = &handle{way: w, ah: ah}
		h.made[w] = x
	}
	x.refs++
	return x
}

// put gives a reference back. It reports whether that was the last one; then the caller frees
// the handle with drop when no work request refers to it.
func (h *handles) put(x *handle) (last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.refs--
	return x.refs == 0
}

// drop frees a handle unless somebody took it again.
func (h *handles) drop(x *handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.refs == 0 && h.made[x.way] == x {
		delete(h.made, x.way)
		x.ah.Close()
	}
}

// close frees all handles, after those that are being made; get fails from now on.
func (h *handles) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.making.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.made {
		x.ah.Close()
	}
	clear(h.made)
}

// source names the sender of a received datagram.
type source struct {
	gid verbs.GID // Ethernet
	lid uint32    // InfiniBand
	qpn uint32
}

// peer is an endpoint that was introduced.
type peer struct {
	addr   transport.Addr
	src    source
	card   card // identity
	handle *handle
	ah     uint64
	qpn    uint32
	qkey   uint32
	mtu    int
	used   uint64        // when it last sent or got something, by peers.clock
	sends  int           // packets to it since it was last heard of, 0, 1 or 2 for more
	since  monotime.Time // when the second of them went
}

// peers is the table of those introduced. Only for the using goroutine.
type peers struct {
	limit  int
	clock  uint64 // counts bursts
	byAddr map[transport.Addr]*peer
	bySrc  map[source]*peer
	lastTx *peer
	lastRx *peer
}

func (t *peers) init(limit int) {
	t.limit = limit
	t.byAddr, t.bySrc = map[transport.Addr]*peer{}, map[source]*peer{}
}

// to returns the peer at an address, or nil.
func (t *peers) to(a *transport.Addr) *peer {
	p := t.lastTx
	if p == nil || p.addr != *a {
		if p = t.byAddr[*a]; p == nil {
			return nil
		}
		t.lastTx = p
	}
	p.used = t.clock
	return p
}

// silentFor is after how long without an answer a peer is asked who it is now: it may
// have restarted.
const silentFor = 100 * time.Millisecond

// sent notes that a packet goes to p. now is the time, or 0 if it was not read yet, which it
// need not be where each packet gets an answer. It reports whether p should be asked.
func (p *peer) sent(now *monotime.Time) (ask bool) {
	if p.sends == 0 {
		p.sends = 1
		return false
	}
	if *now == 0 {
		*now = monotime.Now()
	}
	if p.sends == 1 {
		p.sends, p.since = 2, *now
	}
	if now.Sub(p.since) < silentFor {
		return false
	}
	p.since = *now
	return true
}

// from returns the peer that sends from s, or nil.
func (t *peers) from(s *source) *peer {
	p := t.lastRx
	if p == nil || p.src != *s {
		if p = t.bySrc[*s]; p == nil {
			return nil
		}
		t.lastRx = p
	}
	p.used, p.sends = t.clock, 0
	return p
}

// add puts p in and returns those that had to leave: the peers with its address or its queue
// pair, and when the table is full one that was silent for long.
func (t *peers) add(p *peer) (left []*peer) {
	for _, old := range []*peer{t.byAddr[p.addr], t.bySrc[p.src]} {
		if old != nil && t.byAddr[old.addr] == old {
			t.remove(old)
			left = append(left, old)
		}
	}
	if len(t.byAddr) >= t.limit {
		old := t.stale()
		t.remove(old)
		left = append(left, old)
	}
	p.used = t.clock
	t.byAddr[p.addr], t.bySrc[p.src] = p, p
	return left
}

func (t *peers) remove(p *peer) {
	delete(t.byAddr, p.addr)
	delete(t.bySrc, p.src)
	t.lastTx, t.lastRx = nil, nil
}

// stale returns the peer that was silent longest, of a few picked by chance: that is
// how Go walks through maps.
func (t *peers) stale() (oldest *peer) {
	n := 0
	for _, p := range t.byAddr {
		if oldest == nil || p.used < oldest.used {
			oldest = p
		}
		if n++; n == 32 {
			break
		}
	}
	return oldest
}
