package conformance

import (
	"encoding/binary"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// attempts is how often an exchange starts over when packets go missing, which
// the contract allows but an idle network does not do every time.
const attempts = 3

// spec says what one packet of an exchange is like.
type spec struct {
	to   int // index of the destination
	head int // bytes in TxItem.Head
	data int // bytes in TxItem.Data; -1 means nil
}

func (s spec) size() int { return s.head + max(0, s.data) }

// flow is one destination of an exchange and what it has got.
type flow struct {
	to    transport.Transport
	slice int // length of the slice given to RxBurst; 0 means len(rig.rx)
	want  []want
	next  int // in order: the first packet that may still arrive
	got   int
}

type want struct {
	seq  uint64
	size int
	done bool
}

// fill writes the contents of packet seq: its number as far as it fits, then
// bytes that depend on number and place.
func fill(p []byte, seq uint64) {
	var num [8]byte
	binary.LittleEndian.PutUint64(num[:], seq)
	x := seq*0x9E3779B97F4A7C15 | 1
	for i := copy(p, num[:]); i < len(p); i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		p[i] = byte(x >> 32)
	}
}

// holds reports whether p is packet seq of that size.
func (r *rig) holds(p []byte, seq uint64, size int) bool {
	if len(p) != size {
		return false
	}
	if size >= 8 && binary.LittleEndian.Uint64(p) != seq {
		return false // spares the long comparison
	}
	var buf [256]byte
	expected := buf[:]
	if size > len(buf) {
		expected = make([]byte, size)
	}
	fill(expected[:size], seq)
	return string(p) == string(expected[:size])
}

// send offers one burst of packets made by specs from one endpoint to others and
// receives them all, starting over if packets go missing. Contents, sender, order
// and boundaries are checked. As soon as the contract allows it, the memory of
// the packets is overwritten.
func (r *rig) send(from transport.Transport, specs []spec, flows ...*flow) {
	r.Helper()
	var missing int
	for range attempts {
		if missing = r.try(from, specs, flows); missing == 0 {
			return
		}
		r.drain(flows)
	}
	r.Fatalf("%d of %d packets went missing, and some in each of %d attempts (sizes from %d to %d)",
		missing, len(specs), attempts, specs[0].size(), specs[len(specs)-1].size())
}

// sendTo is send to b alone.
func (r *rig) sendTo(specs ...spec) {
	r.Helper()
	r.send(r.a, specs, &flow{to: r.b})
}

// try is one attempt of send. It returns how many packets did not arrive.
func (r *rig) try(from transport.Transport, specs []spec, flows []*flow) (missing int) {
	r.Helper()
	items := r.build(specs, flows)
	base, left := r.seq-uint64(len(specs)), items
	sent := 0
	for limit := r.deadline(); ; {
		progress := false
		if sent < len(items) {
			n, err := from.TxBurst(left)
			if err != nil {
				r.Fatalf("TxBurst: %v", err)
			}
			if n < 0 || n > len(left) {
				r.Fatalf("TxBurst of %d items took %d", len(left), n)
			}
			if n < len(left) {
				r.stalls++
			}
			if n > 0 {
				r.reuse(from, left[:n], base+uint64(sent))
				sent, left, progress = sent+n, left[n:], true
			}
		}
		var idle transport.Transport
		missing = 0
		for _, f := range flows {
			if r.receive(from, f) {
				progress = true
			}
			if f.got < len(f.want) {
				missing, idle = missing+len(f.want)-f.got, f.to
			}
		}
		switch {
		case missing == 0 && sent == len(items):
			return 0
		case progress:
			limit = r.deadline()
			continue
		case time.Now().After(limit):
			return missing
		case sent < len(items):
			r.pause(from, stallWait)
		default:
			r.pause(idle, shortWait)
		}
	}
}

// build makes the packets of one attempt in r.tx.
func (r *rig) build(specs []spec, flows []*flow) []transport.TxItem {
	total := 0
	for _, s := range specs {
		total += s.size()
	}
	if cap(r.tx) < total {
		r.tx = make([]byte, total)
	}
	for _, f := range flows {
		f.want, f.next, f.got = f.want[:0], 0, 0
	}
	items, mem := make([]transport.TxItem, len(specs)), r.tx[:total]
	for i, s := range specs {
		f, size := flows[s.to], s.size()
		fill(mem[:size], r.seq)
		items[i] = transport.TxItem{Dst: f.to.LocalAddr(), Head: mem[:s.head:s.head]}
		if s.data >= 0 {
			items[i].Data = mem[s.head:size:size]
		}
		f.want = append(f.want, want{seq: r.seq, size: size})
		mem = mem[size:]
		r.seq++
	}
	return items
}

// reuse does what the caller of TxBurst may do with packets that were taken:
// write over them, at once or after Flush. Before that the transport must not
// have changed them.
func (r *rig) reuse(from transport.Transport, items []transport.TxItem, seq uint64) {
	r.Helper()
	if !from.Caps().TxCopies {
		from.Flush()
	}
	for i := range items {
		it := &items[i]
		if joined := append(it.Head[:len(it.Head):len(it.Head)], it.Data...); !r.holds(joined,
			seq+uint64(i), len(joined)) {
			r.Fatalf("the transport wrote to the memory of item %d", i)
		}
		garbage(it.Head)
		garbage(it.Data)
	}
}

func garbage(p []byte) {
	for i := range p {
		p[i] = 0xA5
	}
}

// receive polls f once and checks what came. It reports whether anything did.
func (r *rig) receive(from transport.Transport, f *flow) bool {
	r.Helper()
	n := f.slice
	if n == 0 {
		n = len(r.rx)
	}
	n = r.poll(f.to, r.rx[:n])
	for i := range r.rx[:n] {
		r.match(from, f, &r.rx[i])
	}
	return n > 0
}

// match finds the packet among those that f still expects.
func (r *rig) match(from transport.Transport, f *flow, p *transport.RxPacket) {
	r.Helper()
	if p.From != from.LocalAddr() {
		r.Fatalf("packet is from %v, sent by %v", p.From, from.LocalAddr())
	}
	for i := f.next; i < len(f.want); i++ {
		w := &f.want[i]
		if w.done || !r.holds(p.Data, w.seq, w.size) {
			continue
		}
		w.done = true
		f.got++
		if !r.o.reordering {
			f.next = i + 1
		}
		return
	}
	for i := range f.want[:f.next] {
		if w := &f.want[i]; r.holds(p.Data, w.seq, w.size) {
			if w.done {
				r.Fatalf("packet %d of %d arrived again", i, len(f.want))
			}
			r.Fatalf("packet %d of %d arrived after later ones", i, len(f.want))
		}
	}
	r.Fatalf("received %s, which nobody sent; %d of %d packets were right before",
		brief(p.Data), f.got, len(f.want))
}

// drain throws away what is still under way after a failed attempt.
func (r *rig) drain(flows []*flow) {
	r.Helper()
	for _, f := range flows {
		for quiet := 0; quiet < 3; quiet++ {
			if r.poll(f.to, r.rx) > 0 {
				quiet = 0
			}
			r.pause(f.to, shortWait)
		}
	}
}
