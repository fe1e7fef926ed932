package hostiletest

import (
	"math/rand/v2"
	"time"

	"github.com/userspace-rpc/erpc/wire"
)

// rules say what a network may do.
type rules struct {
	checksum bool // the sessions agree on checksums
	damage   bool // packets of requests and responses have bits flipped and fields exchanged
	forge    bool // ... and get the token and checksum that the receiver wants
	late     time.Duration
}

// strict reports whether the sessions must get everything right: either damage is noticed, or
// packets arrive whole or not at all.
func (r *rules) strict() bool { return !r.forge && (r.checksum || !r.damage) }

// way names one thing that can happen to a packet.
type way uint8

const (
	wayDrop way = iota
	wayRepeat
	wayDelay
	wayReorder // held until some packets behind it have passed
	wayTruncate
	wayExtend
	wayFlip
	waySwap       // fields of another packet
	wayReplay     // an earlier packet, of any session and incarnation, comes along
	wayElse       // it comes from another client's address
	numWays       // how many
	storm     = 5 // how many happen at a time
)

// weather describes how a network treats packets for a while.
type weather struct {
	touch int // of 1000 packets
	ways  [storm]way
}

// newWeather draws a weather.
func newWeather(r *rand.Rand) *weather {
	w := &weather{touch: []int{3, 30, 100, 300}[r.IntN(4)]}
	for i := range w.ways {
		w.ways[i] = way(r.IntN(int(numWays)))
	}
	return w
}

// echoes is a weather in which earlier packets of all sessions and incarnations come again.
var echoes = &weather{
	touch: 500, ways: [storm]way{wayReplay, wayReplay, wayReplay, wayReplay, wayReplay},
}

// side is one direction of a flow. It belongs to the goroutine that reads its packets.
type side struct {
	*flow
	dir   int
	r     *rand.Rand
	buf   [1<<16 + 64]byte
	other []byte // see network.recall
}

// take takes a packet in, which is valid until it returns.
func (s *side) take(pkt []byte) {
	s.n.learn(s.dir, s.flow, pkt)
	w := s.n.weather.Load()
	if w == nil || s.r.IntN(1000) >= max(w.touch, minOf(pkt)) {
		s.pass(s.dir, pkt)
		return
	}
	s.n.touched.Add(1)
	if w := w.ways[s.r.IntN(storm)]; w >= wayTruncate && w <= waySwap {
		s.pass(s.dir, s.damaged(w, pkt))
	} else {
		s.misled(w, pkt)
	}
}

// minOf is how many of 1000 packets like this one meet with something in any weather. Sessions
// open and close with few packets.
func minOf(pkt []byte) int {
	if len(pkt) > 0 && wire.Type(pkt[0]&0x0F) == wire.TypeMgmt {
		return 200
	}
	return 0
}

// misled treats a packet whose bytes stay as they are.
func (s *side) misled(w way, pkt []byte) {
	switch w {
	case wayRepeat:
		s.pass(s.dir, pkt)
		for range 1 + s.r.IntN(4) {
			s.passLate(s.dir, pkt, between(s.r, 0, s.n.rules.late))
		}
	case wayDelay:
		s.passLate(s.dir, pkt, between(s.r, 0, s.n.rules.late))
	case wayReorder:
		s.passLate(s.dir, pkt, between(s.r, 0, time.Millisecond))
	case wayReplay:
		s.pass(s.dir, pkt)
		for range 1 + s.r.IntN(8) {
			var f *flow
			s.other, f = s.n.recall(s.dir, s.r, s.other)
			if s.r.IntN(4) == 0 {
				f = s.n.another(s.r)
			}
			f.pass(s.dir, s.other)
		}
	case wayElse:
		s.n.another(s.r).pass(s.dir, pkt)
		if s.r.IntN(2) == 0 {
			s.pass(s.dir, pkt)
		}
	}
}

// damaged returns a packet with other bytes.
func (s *side) damaged(w way, pkt []byte) []byte {
	if len(pkt) < wire.HeaderSize {
		return pkt
	}
	mgmt := wire.Type(pkt[0]&0x0F) == wire.TypeMgmt
	if !mgmt && !s.n.rules.damage && (w == wayFlip || w == waySwap) {
		w = wayTruncate
	}
	b := append(s.buf[:0], pkt...)
	switch w {
	case wayTruncate:
		b = b[:s.r.IntN(len(b))]
	case wayExtend:
		for range 1 + s.r.IntN(64) {
			b = append(b, byte(s.r.Uint32()))
		}
	case wayFlip:
		for range 1 + s.r.IntN(4) {
			i := s.r.IntN(8 * min(len(b), 1+s.r.IntN(2*wire.HeaderSize+1)))
			b[i/8] ^= 1 << (i % 8)
		}
	case waySwap:
		s.other, _ = s.n.recall(s.dir, s.r, s.other)
		f := fields[s.r.IntN(len(fields))]
		copy(b[min(f[0], len(b)):min(f[1], len(b))], s.other[min(f[0], len(s.other)):])
	}
	if len(b) >= wire.HeaderSize && (mgmt && s.r.IntN(4) != 0 || s.n.rules.forge) {
		s.seal(b, pkt, mgmt)
	}
	return b
}

// seal gives packet b the token that the receiver of pkt wants, and the right checksum.
func (s *side) seal(b, pkt []byte, mgmt bool) {
	if mgmt && !s.n.rules.forge {
		for _, p := range unproved[wire.Op(pkt[1])] {
			copy(b[min(p[0], len(b)):min(p[1], len(b))], pkt[p[0]:])
		}
	}
	if mgmt || s.n.rules.checksum {
		wire.SealMgmt(b, wire.OpenMgmt(pkt)) // packets of requests are sealed in the same way
	} else {
		wire.SetToken(b, wire.Token(pkt))
	}
}

// unproved holds the bytes of what the two sides agree on that nothing but a checksum protects:
// the MTU, which a client may lower between its Connects, and all of the Accept's offer. Whoever
// forges them makes a session whose two ends differ, and which works in part, or not at all.
var unproved = map[wire.Op][][2]int{
	wire.OpConnect: {{wire.HeaderSize + 40, wire.HeaderSize + 44}},
	wire.OpAccept:  {{wire.HeaderSize + 24, wire.HeaderSize + 48}},
}

// fields holds the places of fields, alone and together, of headers and of management bodies.
var fields = [...][2]int{
	{0, 1}, {1, 2}, {2, 4}, {4, 8}, {8, 12}, {12, 16}, {8, 16}, {16, 22}, {16, 18}, {22, 24}, {16, 24},
	{0, 8}, {0, 24}, {24, 32}, {32, 40}, {40, 44}, {44, 48}, {40, 48}, {48, 72}, {72, 88}, {24, 88},
}
