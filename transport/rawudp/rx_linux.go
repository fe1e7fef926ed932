package rawudp

import "github.com/userspace-rpc/erpc/transport"

// rxFrames is how many frames are taken from the device at once.
const rxFrames = 64

// Rejects counts frames that reached an endpoint and were no packets for it.
type Rejects struct {
	Foreign   uint64 // for somebody else, or of another protocol
	Fragments uint64 // parts of IP packets
	Malformed uint64 // lengths that contradict each other
	Damaged   uint64 // wrong checksums
	TooLarge  uint64 // packets larger than Caps.MTU; in Stats.RxDropped, too
}

// receiver takes frames and splits them into packets. Frames are taken only when all
// packets of those before were returned, so that all of them can be given back at once.
type receiver struct {
	c    *Conn
	next int // frame to split next
	got  int // frames taken

	// The frame being split.
	rest []byte // what is left of it
	open bool
	seg  int // bytes a packet
	from transport.Addr
	ce   bool

	packets, bytes, dropped uint64
	rejects                 Rejects

	dgram  Datagram
	frames [rxFrames]RxFrame
}

func (r *receiver) init(c *Conn) { r.c = c }

// pending reports whether packets were taken but not yet returned.
func (r *receiver) pending() bool { return r.open || r.next < r.got }

func (r *receiver) burst(pkts []transport.RxPacket) (int, error) {
	if len(pkts) == 0 {
		return 0, nil
	}
	if !r.pending() {
		r.next, r.got = 0, 0
		got, err := r.c.dev.Receive(r.frames[:min(len(pkts), rxFrames)])
		if err != nil {
			return 0, err
		}
		r.got = got
	}
	n := 0
	for n < len(pkts) {
		if !r.open {
			if r.next == r.got {
				break
			}
			r.openNext()
			continue
		}
		n = r.split(pkts, n)
	}
	r.packets += uint64(n)
	return n, nil
}

// openNext makes the next frame the one being split, or rejects it.
func (r *receiver) openNext() {
	f, d := &r.frames[r.next], &r.dgram
	r.next++
	switch r.c.codec.Parse(f, d) {
	case Mine:
	case Fragment:
		r.rejects.Fragments++
		return
	case Malformed:
		r.rejects.Malformed++
		return
	case Damaged:
		r.rejects.Damaged++
		return
	default:
		r.rejects.Foreign++
		return
	}
	r.seg = len(d.Payload)
	if f.Segment > 0 && f.Segment < r.seg {
		r.seg = f.Segment
	}
	r.rest = d.Payload
	if r.seg > r.c.caps.MTU && !r.dropLong(len(d.Payload)) {
		return
	}
	r.from.IP, r.from.Port, r.from.Scope = d.IP, uint32(d.Port), 0
	if r.c.local.Scope != 0 && d.IP[0] == 0xFE && d.IP[1]&0xC0 == 0x80 { // link-local (RFC 4291, 2.4)
		r.from.Scope = r.c.local.Scope
	}
	r.ce = d.CE
	r.open = true
	r.bytes += uint64(len(r.rest))
}

// dropLong drops the packets of a frame that are larger than the MTU: all but perhaps
// the last of a train, which may be shorter. It reports whether one is left.
func (r *receiver) dropLong(total int) bool {
	long := uint64(total / r.seg)
	last := total % r.seg
	if last > r.c.caps.MTU {
		long, last = long+1, 0
	}
	r.dropped += long
	r.rejects.TooLarge += long
	r.rest = r.rest[total-last:]
	return last > 0
}

// split fills pkts from n on with packets of the open frame and returns the new n. A
// datagram without bytes is a packet without bytes.
func (r *receiver) split(pkts []transport.RxPacket, n int) int {
	rest, seg := r.rest, r.seg
	for n < len(pkts) {
		k := min(seg, len(rest))
		p := &pkts[n]
		p.Data = rest[:k:k] // nothing can be appended into the next packet
		p.From = r.from
		p.CE, p.Shared = r.ce, false
		rest = rest[k:]
		n++
		if len(rest) == 0 {
			r.open = false
			break
		}
	}
	r.rest = rest
	return n
}
