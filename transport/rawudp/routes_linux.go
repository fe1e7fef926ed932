package rawudp

import (
	"errors"
	"net/netip"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// path is the way to one IP address.
type path struct {
	header Template
	hop    *hop          // nil: none
	retry  monotime.Time // when to look for a hop again
}

// hop is a neighbour that packets are sent to.
type hop struct {
	ip      netip.Addr
	mac     MAC
	known   bool
	waiting bool          // the kernel is looking for it
	used    bool          // since the kernel was told
	retry   monotime.Time // when to ask again if it is not known
}

// Limits of the route cache, and how long a failure is believed.
const (
	maxRoutes  = 1 << 16
	retryRoute = time.Second
	retryHop   = 100 * time.Millisecond
)

// routes is the cache of what the network said.
type routes struct {
	conn      *Conn
	paths     map[[16]byte]*path
	hops      map[netip.Addr]*hop
	last      *path // to lastDst
	lastDst   transport.Addr
	pending   int           // hops that the kernel is looking for
	confirmed monotime.Time // when confirm was called
}

func (r *routes) init(c *Conn) {
	r.conn = c
	r.paths, r.hops = map[[16]byte]*path{}, map[netip.Addr]*hop{}
}

// forget empties the cache.
func (r *routes) forget() {
	clear(r.paths)
	clear(r.hops)
	r.last, r.lastDst, r.pending = nil, transport.Addr{}, 0
}

// route returns the way to dst with a known hop, or nil.
func (r *routes) route(dst *transport.Addr) *path {
	if r.last != nil && *dst == r.lastDst && r.last.hop.known {
		r.last.hop.used = true
		return r.last
	}
	p := r.paths[dst.IP]
	if p == nil || p.hop == nil || !p.hop.known || dst.Port == 0 || dst.Port > 65535 {
		if p = r.seek(dst, p); p == nil {
			return nil
		}
	}
	p.hop.used = true
	r.last, r.lastDst = p, *dst
	return p
}

// seek asks the network for the way to dst; p has the facts known so far. The rare, slow part of
// route.
func (r *routes) seek(dst *transport.Addr, p *path) *path {
	c := r.conn
	if !c.codec.Speaks(dst) || dst.IP == c.local.IP {
		return nil
	}
	ip, now := netip.AddrFrom16(dst.IP).Unmap(), monotime.Now()
	if p == nil {
		if len(r.paths) >= maxRoutes {
			r.forget()
		}
		p = &path{header: c.codec.Template(ip)}
		r.paths[dst.IP] = p
	}
	if p.hop == nil {
		if now < p.retry {
			return nil
		}
		at, err := c.net.NextHop(ip)
		if err != nil {
			p.retry = now.Add(retryRoute)
			return nil
		}
		if p.hop = r.hops[at]; p.hop == nil {
			p.hop = &hop{ip: at}
			r.hops[at] = p.hop
		}
		p.retry = 0
	}
	h := p.hop
	if !h.known && now >= h.retry {
		h.retry = now.Add(retryHop)
		mac, err := c.net.Neighbour(h.ip)
		r.set(h, mac, err == nil, err != nil && errors.Is(err, ErrPending))
	}
	if !h.known {
		return nil
	}
	return p
}

// set takes note of what is known of a neighbour.
func (r *routes) set(h *hop, mac MAC, known, waiting bool) {
	if waiting != h.waiting {
		h.waiting = waiting
		if waiting {
			r.pending++
		} else {
			r.pending--
		}
	}
	h.known = known
	if known {
		h.mac = mac
	}
}

// onNeighbour gets every neighbour on the link that changed.
func (r *routes) onNeighbour(ip netip.Addr, mac MAC, found bool) {
	if h := r.hops[ip]; h != nil {
		r.set(h, mac, found, false)
	}
}

// confirm tells the kernel which neighbours are in use. The kernel sees no packets to
// them, so it would neither notice when they are gone nor keep them.
func (r *routes) confirm() {
	for ip, h := range r.hops {
		if h.used {
			h.used = false
			r.conn.net.Confirm(ip)
		}
	}
}
