package shm

import (
	"github.com/userspace-rpc/erpc/internal/shmem"
	"github.com/userspace-rpc/erpc/transport"
)

const (
	// alwaysPolled rings are looked at by each RxBurst, however quiet.
	alwaysPolled = 8
	// quietPolls is how many empty polls make a ring an idle one.
	quietPolls = 1024
	// idleStep is how many of the idle rings each RxBurst looks at.
	idleStep = 8
)

// receiver is the receiving half of a Conn. Its rings are the busy ones, which each
// RxBurst polls, then the idle ones, of which it polls a few.
type receiver struct {
	rings []*peer
	busy  int // how many of rings are busy
	next  int // busy ring to poll first
	idle  int // idle ring to look at next, counted from busy
	small shmem.Arena
	dying []*peer // dead, but not freed yet

	packets, bytes, calls, corrupt uint64
}

func (r *receiver) init() { r.small = shmem.NewArena(maxBurst) }

// RxBurst receives packets, see transport.Transport. Packets of more than 256 bytes are
// handed out where the sender wrote them, see transport.Path.Shared. It returns at
// most 256.
func (c *Conn) RxBurst(pkts []transport.RxPacket) (int, error) {
	if c.closed.Load() {
		return 0, transport.ErrClosed
	}
	// Packets of the burst before end here: the safe point to free memory.
	if c.news.Load() || len(c.rx.dying) > 0 {
		c.takeNews()
		c.freeDead()
	}
	r := &c.rx
	r.small.Reset()
	r.calls++
	if len(pkts) > maxBurst {
		pkts = pkts[:maxBurst]
	}
	if len(pkts) == 0 {
		return 0, nil
	}
	if len(r.rings) > r.busy {
		r.findBusy()
	}
	n := 0
	for k := r.busy; k > 0 && n < len(pkts); k-- {
		if r.next >= r.busy {
			r.next = 0
		}
		p := r.rings[r.next]
		r.next++
		got := r.poll(p, pkts[n:])
		n += got
		if got > 0 {
			p.quiet = 0
			continue
		}
		if p.quiet++; p.quiet > quietPolls && r.busy > alwaysPolled {
			r.makeIdle(p)
		}
		if p.rx.Broken() && !p.dead {
			c.condemn(p)
		}
	}
	r.packets += uint64(n)
	return n, nil
}

// poll receives from one ring.
func (r *receiver) poll(p *peer, pkts []transport.RxPacket) int {
	p.rx.Free()
	bytes := 0
	for i := range pkts {
		data, ok := p.rx.Next(&r.small)
		if !ok {
			r.bytes += uint64(bytes)
			return i
		}
		pkt := &pkts[i]
		pkt.Data, pkt.From, pkt.CE = data, p.addr, false
		pkt.Shared = len(data) > transport.PrivateBytes
		bytes += len(data)
	}
	r.bytes += uint64(bytes)
	return len(pkts)
}

// add makes the ring of a new peer a busy one.
func (r *receiver) add(p *peer) {
	p.at = len(r.rings)
	r.rings = append(r.rings, p)
	r.makeBusy(p)
}

// remove forgets the ring of a peer.
func (r *receiver) remove(p *peer) {
	if p.at < r.busy {
		r.makeIdle(p)
	}
	r.swap(p.at, len(r.rings)-1)
	r.rings[len(r.rings)-1] = nil
	r.rings = r.rings[:len(r.rings)-1]
	if r.busy < min(alwaysPolled, len(r.rings)) {
		r.makeBusy(r.rings[r.busy])
	}
}

func (r *receiver) makeBusy(p *peer) {
	p.quiet = 0
	r.swap(p.at, r.busy)
	r.busy++
}

func (r *receiver) makeIdle(p *peer) {
	r.busy--
	r.swap(p.at, r.busy)
}

func (r *receiver) swap(i, j int) {
	a := r.rings
	a[i], a[j] = a[j], a[i]
	a[i].at, a[j].at = i, j
}

// findBusy looks at some idle rings and makes those with packets busy.
func (r *receiver) findBusy() {
	for range min(idleStep, len(r.rings)-r.busy) {
		at := r.busy + r.idle
		if at >= len(r.rings) {
			at, r.idle = r.busy, 0
			if at == len(r.rings) {
				return
			}
		}
		r.idle++
		if p := r.rings[at]; p.rx.Ready() {
			r.makeBusy(p)
		}
	}
}

// ready reports whether any ring has something. It looks at all.
func (r *receiver) ready() bool {
	for _, p := range r.rings {
		if p.rx.Ready() {
			if p.at >= r.busy {
				r.makeBusy(p) // for the next RxBurst
			}
			return true
		}
	}
	return false
}

// condemn ends the connection with a peer that wrote nonsense.
func (c *Conn) condemn(p *peer) {
	c.rx.corrupt++
	c.bury(p)
	p.until = 0 // nothing more is read
	c.tx.fail(&c.peers, p.addr)
}

// connected reports whether there is a connection to an address. There may be one more after that
// of a peer that was left for its nonsense.
func (c *Conn) connected(a *transport.Addr) bool {
	p := c.peers.get(a)
	return p != nil && p.open
}

// freeDead frees the peers that are gone and have nothing more to receive. Nobody uses
// their packets any more.
func (c *Conn) freeDead() {
	left := c.rx.dying[:0]
	for _, p := range c.rx.dying {
		if p.rx.Ready() && p.rx.Position() < p.until {
			left = append(left, p)
			continue
		}
		c.rx.remove(p)
		c.hub.release(p)
		if p.left && len(c.gone) < c.hub.cfg.MaxPeers && !c.connected(&p.addr) {
			c.gone = append(c.gone, p.addr)
		}
	}
	clear(c.rx.dying[len(left):])
	c.rx.dying = left
}
