package sim

import "time"

// departure is the moment at which a queued packet's last bit leaves.
type departure struct {
	at   Time
	size int32
}

// port is the output queue of one end of a link. Since it is first come, first
// served, a packet's departure is known when it joins: no event is needed to
// take it off, and depth is brought up to date when somebody asks.
type port struct {
	rate   int64         // bits per second; 0 is infinite, and then there is no queue
	delay  time.Duration // from the last bit's departure to its arrival at the next hop
	limit  int           // bytes; 0 is none
	owner  *fabric
	busy   Time  // the queue is empty from then on ...
	rem    int64 // ... and rem/rate ns later, so that rounding does not add up
	depth  int   // bytes queued, as of the last drain
	queue  []departure
	head   int // index in queue of the first; len(queue) is a power of two
	length int // packets in queue
	stats  PortStats
}

// fabric is a switch: ports that share a buffer.
type fabric struct {
	buffer int
	alpha  float64
	used   int // bytes; packets that left since the ports' last drain still count
	ports  []*port
}

// PortStats counts what one output queue did. Sizes are bytes on the wire.
type PortStats struct {
	Packets  uint64 // packets that joined the queue
	Bytes    uint64
	Drops    uint64 // packets that found no room
	Marks    uint64 // packets marked "congestion experienced"
	MaxDepth int    // most bytes ever queued, the packet being sent included
	Depth    int    // bytes queued now
}

// drain takes off what has departed by now.
func (p *port) drain(now Time) {
	for p.length > 0 {
		d := &p.queue[p.head]
		if d.at > now {
			return
		}
		p.depth -= int(d.size)
		if p.owner != nil {
			p.owner.used -= int(d.size)
		}
		p.head = (p.head + 1) & (len(p.queue) - 1)
		p.length--
	}
}

// admits reports whether a packet of size bytes finds room.
func (p *port) admits(now Time, size int) bool {
	p.drain(now)
	if p.limit > 0 && p.depth+size > p.limit {
		return false
	}
	f := p.owner
	if f == nil || f.buffer == 0 || f.fits(p, size) {
		return true
	}
	// The answer may be due to what other ports have sent by now.
	for _, q := range f.ports {
		q.drain(now)
	}
	return f.fits(p, size)
}

func (f *fabric) fits(p *port, size int) bool {
	if f.used+size > f.buffer {
		return false
	}
	return f.alpha == 0 || float64(p.depth+size) <= f.alpha*float64(f.buffer-f.used)
}

// join queues a packet that was admitted, and returns when its first and its
// last bit leave.
func (p *port) join(now Time, size int) (first, last Time) {
	if p.busy < now {
		p.busy, p.rem = now, 0
	}
	first = p.busy
	bits := int64(size)*8*1e9 + p.rem
	p.busy = p.busy.Add(time.Duration(bits / p.rate))
	p.rem = bits % p.rate
	p.depth += size
	if p.owner != nil {
		p.owner.used += size
	}
	if p.length == len(p.queue) {
		p.grow()
	}
	p.queue[(p.head+p.length)&(len(p.queue)-1)] = departure{p.busy, int32(size)}
	p.length++
	p.stats.Packets++
	p.stats.Bytes += uint64(size)
	p.stats.MaxDepth = max(p.stats.MaxDepth, p.depth)
	return first, p.busy
}

func (p *port) grow() {
	q := make([]departure, max(16, 2*len(p.queue)))
	n := copy(q, p.queue[p.head:])
	copy(q[n:], p.queue[:p.head])
	p.queue, p.head = q, 0
}

// setRate changes the rate for the packets that join from now on.
func (p *port) setRate(rate int64) {
	if p.rate != rate {
		p.rate, p.rem = rate, 0
	}
}
