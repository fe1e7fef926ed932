package engine

import (
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// unknown takes a packet of a session that is not in the table, with its session field. It reports
// whether the packet is for another loop. What was sealed is for the loop that has its keys.
//
//go:noinline
func (e *Engine) unknown(field uint32, p *transport.RxPacket, via uint32) bool {
	if via != 0 || wire.LoopOf(field) == e.Loop() {
		e.stats.DropNoSession++
		return false
	}
	if !e.astray(field, p) {
		e.stats.DropNoLoop++
	}
	return true
}

// astray gives a packet to the loop that its session field names. It reports false if that is this
// one, or does not run: the packet stays here.
//
//go:noinline
func (e *Engine) astray(field uint32, p *transport.RxPacket) bool {
	loop := wire.LoopOf(field)
	if loop == e.Loop() || e.peers == nil {
		return false
	}
	runs, took := e.peers.HandOver(loop, p)
	if took {
		e.stats.HandedOver++
	} else if runs {
		e.stats.DropHandover++
	}
	return runs
}

// cookie makes the cookie for a first Connect. That of a group names the loop that the session is
// for.
func (e *Engine) cookie(c *wire.Connect, p *connectPacket, body []byte) [wire.CookieSize]byte {
	cookies := e.handshakes.cookies
	if e.peers == nil {
		return cookies.Make(&p.From, body, e.in.Now)
	}
	field, _ := wire.SessionOf(p.Data)
	loop := e.peers.Place(cookies.Spread(&p.From, c.Nonce), wire.LoopOf(field))
	return cookies.MakeFor(loop, &p.From, body, e.in.Now)
}

// placed reports whether a session whose cookie is good is for this loop. If not, the Connect goes
// to its loop. If that has ended, the cookie is as one of an endpoint that has restarted.
func (e *Engine) placed(c *wire.Connect, p *connectPacket) (here, gone bool) {
	loop := c.Cookie[wire.CookieLoopAt]
	if e.peers == nil || loop == e.Loop() {
		return true, false
	}
	return false, !e.astray(wire.FirstOf(loop), p.RxPacket)
}
