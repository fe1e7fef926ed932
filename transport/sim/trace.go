package sim

import "fmt"

// traceKind is a kind of event in the trace.
type traceKind uint8

const (
	trSend traceKind = iota + 1
	trCopy
	trHop
	trDeliver
	trLost
	trCut
	trTail
	trDamaged
	trGone
	trOverflow
	trMark
	trTimer
	trRun
	trOpen
	trClose
	trCrash
	trPause
	trResume
)

var traceNames = [...]string{"", "send", "copy", "hop", "deliver", "lost", "cut", "tail drop",
	"bad checksum",
	"no endpoint", "ring overflow", "mark", "timer", "run", "open", "close", "crash",
	"pause", "resume"}

// mix folds v into h: a multiply-and-shift step that spreads every bit of v.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9E3779B97F4A7C15
	return h ^ h>>29
}

// note adds an event to the trace hash. A packet's ends, size and bytes are
// folded in where it is sent; later events name it by its id.
func (n *Network) note(kind traceKind, id uint64) {
	n.hash = mix(mix(n.hash, uint64(n.now)), uint64(kind)<<56^id)
}

// notePacket notes an event of a packet.
func (n *Network) notePacket(kind traceKind, p *packet) {
	n.note(kind, p.id)
	if n.cfg.Trace != nil {
		fmt.Fprintf(n.cfg.Trace, "%d %s #%d %d->%d:%d %d B\n",
			n.now, traceNames[kind], p.id, p.src.id, p.dst.id, p.port, len(p.buf))
	}
}

// noteEndpoint notes an event of an endpoint.
func (n *Network) noteEndpoint(kind traceKind, e *Endpoint) {
	n.note(kind, uint64(e.index))
	if n.cfg.Trace != nil {
		fmt.Fprintf(n.cfg.Trace, "%d %s %s %v\n", n.now, traceNames[kind], e.name, e.addr)
	}
}

// noteTimer notes that a timer fired.
func (n *Network) noteTimer(i uint32) {
	n.note(trTimer, uint64(i))
	if n.cfg.Trace != nil {
		fmt.Fprintf(n.cfg.Trace, "%d timer\n", n.now)
	}
}

// TraceHash returns a hash of all that happened so far: each event's kind and
// time, and the ends and bytes of each packet. Two runs with the same hash were
// the same; it is no defence against somebody who wants it to collide.
func (n *Network) TraceHash() uint64 { return n.hash }
