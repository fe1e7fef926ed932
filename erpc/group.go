package erpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// MaxLoops is the largest number of event loops on one address.
const MaxLoops = wire.MaxLoop

// group has the endpoints of one address. Each has a loop of its own, whose number is in the
// numbers of its sessions. They share a secret, so that the two Connects of an attempt may reach
// two of them.
type group struct {
	secret  [16]byte
	members []atomic.Pointer[Rpc] // by number less one; nil has ended
}

// NewRpcs makes an endpoint on each of several transports that have one address. It owns all of
// them from now on, also when it fails. Packets should be spread over the transports by the loop in
// them, see wire.LoopOf: loop i is that of transport i-1. Package transport/udp has such sockets. A
// packet that comes to another loop is handed over to its own.
//
// Each endpoint is used and closed like that of NewRpc. The others go on when one is closed, and
// get its new sessions. None can be added. One transport alone is the same as NewRpc.
//
// Errors: a *ConfigError, ErrClosed, and those of the system; ErrTransportInUse if another endpoint
// owns one of the transports, which stays as it is, or if one is there twice.
func (n *Nexus) NewRpcs(trs []transport.Transport) ([]*Rpc, error) {
	own, err := takeAll(trs)
	var rpcs []*Rpc
	if err == nil {
		rpcs, err = n.newRpcs(own)
	}
	if err == nil {
		return rpcs, nil
	}
	for i, c := range own {
		if i < len(rpcs) {
			err = errors.Join(err, rpcs[i].Close())
		} else {
			err = errors.Join(err, c.close())
		}
	}
	return nil, err
}

// takeAll takes each transport that can be taken.
func takeAll(trs []transport.Transport) (own []*claim, err error) {
	for _, tr := range trs {
		c, e := take(tr)
		if e == nil {
			own = append(own, c)
		} else if err == nil {
			err = e
		}
	}
	return own, err
}

// newRpcs does the work of NewRpcs. When it fails, the endpoints that it returns are open.
func (n *Nexus) newRpcs(own []*claim) (rpcs []*Rpc, err error) {
	if len(own) < 1 || len(own) > MaxLoops {
		return nil, &ConfigError{"Loops",
			fmt.Sprintf("are %d, must be 1 to %d", len(own), MaxLoops)}
	}
	var g *group
	if len(own) > 1 {
		g = &group{members: make([]atomic.Pointer[Rpc], len(own))}
	}
	for i, c := range own {
		if addr, first := c.tr.LocalAddr(), own[0].tr.LocalAddr(); addr != first {
			return rpcs, &ConfigError{"Loops", fmt.Sprintf(
				"must share one address: one has %v, another %v", first, addr)}
		}
		r, err := n.newRpc(c)
		if err != nil {
			return rpcs, err
		}
		if g != nil {
			r.joinGroup(g, i)
		}
		rpcs = append(rpcs, r)
	}
	return rpcs, nil
}

// joinGroup makes a new endpoint the i-th of a group.
func (r *Rpc) joinGroup(g *group, i int) {
	if i == 0 {
		for at := 0; at < len(g.secret); at += 8 {
			binary.LittleEndian.PutUint64(g.secret[at:], r.engine.Rand().Uint64())
		}
	}
	r.group, r.inbox = g, &inbox{taken: make([]handed, r.cfg.Burst)}
	r.rx = make([]transport.RxPacket, r.cfg.Burst, 2*r.cfg.Burst) // behind it what was handed over
	r.number = i + 1
	r.engine.Join(g, uint8(i+1), g.secret)
	g.members[i].Store(r)
}

// leaveGroup says to the other loops that this one has ended.
func (r *Rpc) leaveGroup() {
	if g := r.group; g != nil {
		g.members[r.engine.Loop()-1].Store(nil)
	}
}

// member returns the endpoint of a loop, nil if there is none.
func (g *group) member(loop uint8) *Rpc {
	if int(loop)-1 >= len(g.members) || loop == 0 {
		return nil
	}
	return g.members[loop-1].Load()
}

// Loops is a method of engine.Peers.
func (g *group) Loops() int { return len(g.members) }

// Epoch returns the incarnation of a loop.
func (g *group) Epoch(loop uint8) (epoch uint64, runs bool) {
	r := g.member(loop)
	if r == nil {
		return 0, false
	}
	return r.engine.Epoch(), true
}

// Place returns the loop for a new session: the one that is asked for if it runs, else one by
// rendezvous hashing of a number that is the same each time the attempt to connect is repeated. So
// all loops find the same one, and nothing changes when another loop ends.
func (g *group) Place(number uint64, asked uint8) (loop uint8) {
	if g.member(asked) != nil {
		return asked
	}
	var best uint64
	for i := range g.members {
		if g.members[i].Load() == nil {
			continue
		}
		// splitmix64
		x := number + uint64(i+1)*0x9E3779B97F4A7C15
		x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
		x = (x ^ x>>27) * 0x94D049BB133111EB
		if x ^= x >> 31; x >= best {
			loop, best = uint8(i+1), x
		}
	}
	return loop
}

// The size of an inbox: its rows, and the datagrams that a row holds, a train of UDP.
const (
	inboxRows = 8
	rowSlots  = 64
)

// inbox holds datagrams that other loops received for this one. Only rare events bring any. The
// kernel joins packets of one client into a train before it chooses a socket, and closing a socket
// changes which one the kernel chooses until the filter is told.
//
// A peer can make such trains on purpose, of junk. A loop looks for room before it copies, so it
// copies no more than the other loop takes, and that takes at most as many per pass as it takes
// from the network; junk costs each of them at most about as much again as receiving it did. Such a
// peer is only in its own way: the rows go by address and take turns, and a row that is full loses
// packets of its addresses alone, which go-back-N repeats. Memory is bounded by the slots: their
// buffers stay, as large as the largest datagram that each has held.
type inbox struct {
	waiting atomic.Int32 // packets in the rows

	mu   sync.Mutex
	rows [inboxRows]row
	turn int // the row that is next

	taken []handed // by the receiver, in memory that is its own until it takes more
}

// row is a queue for some addresses.
type row struct {
	at, n int // the first one, and how many
	slots [rowSlots]handed
}

// handed is a datagram that another loop received.
type handed struct {
	data []byte
	from transport.Addr
	ce   bool
}

// rowOf returns the row of an address: whole for IPv4, and by the network's 64 bits for IPv6.
func rowOf(a *transport.Addr) int {
	x := binary.BigEndian.Uint64(a.IP[:8])
	if x == 0 {
		x = uint64(binary.BigEndian.Uint32(a.IP[12:]))
	}
	return int(x * 0x9E3779B97F4A7C15 >> 32 % inboxRows)
}

// put copies a packet. It reports false if there is no room. It is for any goroutine.
func (b *inbox) put(p *transport.RxPacket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.rows[rowOf(&p.From)]
	if l.n == rowSlots {
		return false
	}
	h := &l.slots[(l.at+l.n)%rowSlots]
	h.data, h.from, h.ce = append(h.data[:0], p.Data...), p.From, p.CE
	l.n++
	b.waiting.Add(1)
	return true
}

// take moves packets to pkts, from each row in turn. They are valid until the next call.
func (b *inbox) take(pkts []transport.RxPacket) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for empty := 0; n < len(pkts) && empty < inboxRows; {
		l := &b.rows[b.turn]
		b.turn = (b.turn + 1) % inboxRows
		if l.n == 0 {
			empty++
			continue
		}
		empty = 0
		h, own := &l.slots[l.at], &b.taken[n]
		*h, *own = *own, *h // the slot gets a buffer that is not used any more
		l.at, l.n = (l.at+1)%rowSlots, l.n-1
		pkts[n] = transport.RxPacket{Data: own.data, From: own.from, CE: own.ce}
		n++
	}
	b.waiting.Add(-int32(n))
	return n
}

// takeHanded adds what other loops handed over to the n packets of a burst.
//
//go:noinline
func (r *Rpc) takeHanded(n int) int {
	all := r.rx[:cap(r.rx)]
	got := r.inbox.take(all[n:min(len(all), n+r.cfg.Burst)])
	r.stats.HandedIn += uint64(got)
	return n + got
}

// hasHanded reports whether other loops have handed something over.
func (r *Rpc) hasHanded() bool { return r.inbox != nil && r.inbox.waiting.Load() != 0 }

// HandOver gives a copy of a packet to another loop of the address. It reports false for
// runs if there is no such loop, and for took if its inbox is full.
func (g *group) HandOver(loop uint8, p *transport.RxPacket) (runs, took bool) {
	to := g.member(loop)
	if to == nil {
		return false, false
	}
	took = to.inbox.put(p)
	to.wakeIfSleeping()
	return true, took
}
