package udp

import (
	"encoding/binary"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

const (
	rxMessages = 32 // most messages of one recvmmsg
	growAfter  = 4  // reads of one message in a row ask for more buffers
	// maxDatagram is the most a train can hold, and any datagram.
	maxDatagram = 1 << 16
	// rxSkew shifts each buffer against the one before, so that the first lines
	// of all buffers do not compete for the same set of the cache.
	rxSkew = 5 * 64
)

// rxMeta is filled in by the kernel for one message, beside its bytes.
type rxMeta struct {
	from    sockaddr
	control [176]byte // room for UDP_GRO, a stamp, and a TOS and a PKTINFO of each family
	iov     unix.Iovec
}

// receiver reads messages and splits them into packets. A read happens only when
// all packets of the one before were returned, so one set of buffers is enough.
type receiver struct {
	fd   int
	mtu  int
	next int // message to split next
	got  int // messages read
	want int // messages to ask for
	full int // reads in a row that used all buffers

	gro     bool // trains are wanted; since the first read: and the kernel has them
	mode    rxMode
	mayLone bool // trains can be switched off, and nothing else needs control messages
	singles int  // reads of one packet in a row
	polls   int  // of rxSettling
	dense   int  // of rxLone: packets without an idle poll in between

	// The message being split.
	open bool
	rest []byte // what is left of it
	seg  int    // bytes a packet
	from transport.Addr
	ce   bool

	stamps
	errors  *errorQueue
	sources *sources // nil for a socket on one address
	asked   source   // while a message is opened: the address that it was sent to

	packets, bytes, dropped, calls, soft uint64
	kernelDrops                          uint32 // the kernel's own counter, as last read

	// Buffers for messages, as many as were asked for at most so far.
	msgs []mmsghdr
	meta []rxMeta
	mem  []byte
	size int // bytes a buffer
	step int // bytes from one buffer to the next
}

func (r *receiver) init(fd, mtu int, gro, ecn bool, known *sources, errors *errorQueue) {
	r.errors = errors
	r.fd, r.mtu, r.want, r.sources = fd, mtu, 1, known
	r.gro, r.mayLone = gro, !ecn && known == nil
}

// grow makes n buffers. None is in use: a read begins. So a socket that gets few messages at a time
// takes little memory, and one that is closed at once takes none, and asks for no trains: the first
// and the last socket to do so have the kernel change its code.
func (r *receiver) grow(n int) {
	if r.msgs == nil {
		r.size = r.mtu + 1 // one more shows that a packet was too long
		if r.gro = r.gro && enableGRO(r.fd); r.gro {
			r.size = maxDatagram
		}
		r.mayLone = r.mayLone && r.gro
		r.step = (r.size+63)&^63 + rxSkew
	}
	// On the Go heap, not mapped, so that a packet used after Close is only
	// wrong, not a crash. It holds no pointers: the collector does not look in.
	r.mem = make([]byte, n*r.step)
	r.msgs = make([]mmsghdr, n)
	r.meta = make([]rxMeta, n)
	for i := range r.msgs {
		m, x := &r.msgs[i], &r.meta[i]
		x.iov.Base = &r.mem[i*r.step]
		x.iov.SetLen(r.size)
		m.hdr.Iov = &x.iov
		m.hdr.SetIovlen(1)
		m.put(&x.from, x.control[:])
		r.arm(m)
	}
}

// arm restores the fields of m that the kernel overwrites.
func (r *receiver) arm(m *mmsghdr) {
	m.hdr.Namelen = uint32(len(sockaddr{}))
	m.hdr.SetControllen(len(rxMeta{}.control))
}

// pending reports whether packets were read but not yet returned.
func (r *receiver) pending() bool { return r.open || r.next < r.got }

func (r *receiver) burst(pkts []transport.RxPacket) (int, unix.Errno) {
	if len(pkts) == 0 {
		return 0, 0
	}
	r.first = 0
	fresh := !r.pending()
	if fresh {
		switch {
		case r.mode == rxLone:
			return r.burstLone(pkts)
		case r.mode == rxSettling && r.settled():
			return 0, 0
		}
		if err := r.read(len(pkts)); err != 0 {
			return 0, err
		}
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
	if fresh && n > 0 {
		r.note(n)
	}
	return n, 0
}

// read asks the kernel for messages, at most limit. It asks for one at first:
// asking for more than there are costs a futile look at the queue, on the path of
// a lone packet. While the queue holds all it asks for, it doubles.
func (r *receiver) read(limit int) unix.Errno {
	if len(r.msgs) < rxMessages && (r.msgs == nil || r.full >= growAfter ||
		r.full > 0 && len(r.msgs) > 1) {
		r.full = 0
		r.grow(min(max(1, 4*len(r.msgs)), rxMessages))
	}
	n, err := r.call(min(r.want, limit))
	for tries := 0; err != 0 && err != unix.EAGAIN && tries < pendingTries; tries++ {
		if err == unix.EBADF || err == unix.ENOTSOCK {
			return err
		}
		r.earlier()
		n, err = r.call(1)
	}
	r.next, r.got = 0, n
	if n == r.want {
		r.want = min(2*n, len(r.msgs))
	} else {
		r.want = max(n, 1)
	}
	if r.full++; n < len(r.msgs) {
		r.full = 0
	}
	return 0
}

// earlier notes a call that failed for an error of a packet sent earlier, probably an ICMP message.
// The error is gone now.
func (r *receiver) earlier() {
	r.soft++
	r.errors.due = true
}

func (r *receiver) call(want int) (int, unix.Errno) {
	r.calls++
	if want > 1 {
		n, err := sysRecvmmsg(r.fd, r.msgs[:want])
		if err != 0 {
			n = 0
		}
		return n, err
	}
	if err := sysRecvmsg(r.fd, &r.msgs[0]); err != 0 {
		return 0, err
	}
	return 1, 0
}

// openNext makes the next message the one being split, or drops it.
func (r *receiver) openNext() {
	i := r.next
	r.next++
	m, x := &r.msgs[i], &r.meta[i]
	n := int(m.len)
	r.seg, r.ce, r.stamp = n, false, 0
	if m.hdr.Controllen > 0 {
		r.parseControl(x.control[:min(int(m.hdr.Controllen), len(x.control))])
		if r.sources != nil {
			x.from.get(&r.from)
			r.sources.learn(&r.from, &r.asked)
			r.asked = source{}
		}
	}
	cut := m.hdr.Flags&unix.MSG_TRUNC != 0
	r.arm(m)
	if cut || n > r.size {
		r.dropped++
		return
	}
	start, end := i*r.step, i*r.step+n
	if r.seg > r.mtu {
		// Only the last packet of a train, being shorter, may still fit.
		r.dropped += uint64(n / r.seg)
		start = end - n%r.seg
		if start == end {
			return
		}
		if end-start > r.mtu {
			r.dropped++
			return
		}
	}
	x.from.get(&r.from)
	r.rest = r.mem[start:end]
	r.open = true
	r.bytes += uint64(end - start)
}

// parseControl reads the segment size of a train, when it came, the congestion mark, and the
// destination.
func (r *receiver) parseControl(b []byte) {
	const ce = 3 // the mark, in the low bits of the TOS byte (RFC 3168)
	for {
		h, data, next, ok := controlHeader(b)
		if !ok {
			return
		}
		body := b[data:int(h.Len)]
		switch {
		case h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO && len(body) >= 4:
			if seg := int(int32(binary.NativeEndian.Uint32(body))); seg > 0 && seg < r.seg {
				r.seg = seg
			}
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPNS_NEW:
			r.stamp = readStamp(body)
		case h.Level == unix.SOL_IP && h.Type == unix.IP_TOS && len(body) >= 1:
			r.ce = body[0]&3 == ce
		case h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_TCLASS && len(body) >= 4:
			r.ce = binary.NativeEndian.Uint32(body)&3 == ce
		case h.Level == unix.SOL_IP && h.Type == unix.IP_PKTINFO && len(body) >= pktinfo4Len:
			r.asked.get4(body)
		case h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_PKTINFO && len(body) >= pktinfo6Len:
			r.asked.get6(body)
		}
		b = b[next:]
	}
}

// split fills pkts from n on with packets of the open message and returns the
// new n. A message without bytes is a packet without bytes.
func (r *receiver) split(pkts []transport.RxPacket, n int) int {
	if n == 0 {
		r.first = r.stamp
	}
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

// readDrops adds to dropped what the kernel dropped since the last call.
func (r *receiver) readDrops() {
	if now, ok := sysDrops(r.fd); ok {
		r.dropped += uint64(now - r.kernelDrops) // the kernel's counter wraps
		r.kernelDrops = now
	}
}
