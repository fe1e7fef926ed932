package afxdp

import (
	"sync/atomic"

	"github.com/userspace-rpc/erpc/transport/rawudp"
	"golang.org/x/sys/unix"
)

// The raw sides of the benchmarks are the least that a program can do with the same sockets: they
// poll the ring, answer with frames made beforehand in the same memory, and look at nothing in
// them, so that the bytes of a packet never come to the receiver's cache. No program that wants
// the bytes can do that. Those that look read a byte of each line, in any order that the processor
// likes. The transport adds the codec with its checksums, the checks, the routes and the copy
// into the frame.

// rawSide is a socket used with as little as possible.
type rawSide struct {
	*lane
	count int // frames made, in the first chunks for sending
	size  int // of a frame
	put   uint32
	look  bool // into every line of received frames
	seen  byte
}

// newRaw makes frames with size bytes of payload from one endpoint to the other.
func newRaw(from, to *Conn, size int, look bool) *rawSide {
	l, far := from.dev.local, to.dev.local
	l.MAC, far.MAC = from.Link().MAC, to.Link().MAC
	codec, err := rawudp.NewCodec(l)
	if err != nil {
		panic(err)
	}
	t := codec.Template(far.IP)
	s := &rawSide{lane: from.dev.out, count: 64, look: look}
	s.put = s.pool.filled
	for i := range s.count {
		mem := s.pool.mem[i*chunkSize+lead:]
		s.size = codec.Put(mem, &t, far.MAC, far.Port, size) + size
		codec.Complete(mem[:s.size])
	}
	return s
}

// take gives up to limit received frames back and returns how many there were.
func (s *rawSide) take(limit int) int {
	n := min(limit, int(atomic.LoadUint32(s.rx.producer)-s.got))
	if n == 0 {
		return 0
	}
	fill := &s.pool.fill
	for range n {
		d := &s.rx.desc[s.got&s.rx.mask]
		if s.look {
			for at := d.Addr; at < d.Addr+uint64(d.Len); at = at&^63 + 64 {
				s.seen += s.pool.mem[at]
			}
		}
		fill.addr[s.put&fill.mask] = d.Addr &^ (chunkSize - 1)
		s.got++
		s.put++
	}
	atomic.StoreUint32(s.rx.consumer, s.got)
	atomic.StoreUint32(fill.producer, s.put)
	s.pool.filled = s.put
	return n
}

// send sends n frames, of those that are not under way, and returns how many.
func (s *rawSide) send(n int) int {
	done := &s.pool.done
	s.pool.taken = atomic.LoadUint32(done.producer)
	atomic.StoreUint32(done.consumer, s.pool.taken)
	n = min(n, s.count-int(s.sent-s.pool.taken))
	for range n {
		at := uint64(s.sent) % uint64(s.count)
		s.tx.desc[s.sent&s.tx.mask] = unix.XDPDesc{Addr: at*chunkSize + lead, Len: uint32(s.size)}
		s.sent++
	}
	atomic.StoreUint32(s.tx.producer, s.sent)
	if s.tx.wantsKick() {
		kick(s.fd)
	}
	return n
}
