package udp

import (
	"encoding/binary"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

const (
	txMessages = 32  // most messages of one sendmmsg
	txVectors  = 512 // most pieces of one sendmmsg; a message may have 1,024
	// txCopyMax is the packet size in bytes up to which packets are copied
	// together, so that a message is one piece. The kernel's work per piece costs
	// more than copying that little.
	txCopyMax = 256
	txStage   = 2 * maxDatagram
	txFirst   = 4 << 10 // of txStage, until that is not enough
	// maxTrain is the most bytes that a train holds in either family.
	maxTrain = MaxMTU6
	// loneSlot is the message that sendOne uses. It is none of a batch: packets are also sent
	// one by one while a batch is half sent.
	loneSlot = txMessages
	// pendingTries is how often a call is made again that failed for what may be an error of an
	// earlier packet. Messages of the network come between such a call and the next one too, and
	// more often if somebody forges them.
	pendingTries = 8
)

// verdict is the fate of a packet or train.
type verdict int

const (
	sent    verdict = iota
	refused         // it can never be sent
	lost            // the network dropped it on the way out
	stalled         // the network takes no more now
	broken          // the socket is unusable
)

// train is one message: consecutive items of a burst.
type train struct {
	items int
	bytes int
	told  bool // it leaves from a certain address
}

// transmitter turns bursts into trains and sends them. See package doc.
type transmitter struct {
	fd       int
	ip4      bool
	mtu      int
	segments int // most packets in a train; 1 without GSO

	packets, bytes, dropped, stalls, calls, soft uint64

	sources *sources // nil for a socket on one address
	errors  *errorQueue

	// Of each message, and of loneSlot.
	msgs    []mmsghdr
	names   []sockaddr
	control [][]byte // a segmentControl
	pktinfo [][]byte // a pktinfoControl behind it, empty without sources

	trains  []train
	vectors []unix.Iovec
	stage   []byte
	lone    []byte     // a packet of sendOne
	loneVec unix.Iovec // of loneSlot

	count  int // messages built
	vecs   int // vectors used
	staged int // bytes of stage used
}

func (t *transmitter) init(
	fd int, ip4 bool, mtu, segments int, known *sources, errors *errorQueue,
) {
	t.errors = errors
	t.fd, t.ip4, t.mtu, t.segments, t.sources = fd, ip4, mtu, segments, known
}

// prepare makes memory for a socket that sends for the first time.
func (t *transmitter) prepare() {
	t.msgs = make([]mmsghdr, txMessages+1)
	t.names = make([]sockaddr, txMessages+1)
	t.control = make([][]byte, txMessages+1)
	t.pktinfo = make([][]byte, txMessages+1)
	t.trains = make([]train, txMessages)
	t.lone = make([]byte, t.mtu)
	for i := range t.msgs {
		m := &t.msgs[i]
		b := segmentControl(nil)
		size := len(b)
		if t.sources != nil {
			b = pktinfoControl(b, t.ip4)
		}
		t.control[i], t.pktinfo[i] = b[:size], b[size:]
		m.put(&t.names[i], b)
		m.hdr.Namelen = uint32(t.nameLen())
	}
	t.msgs[loneSlot].hdr.Iov = &t.loneVec
	t.msgs[loneSlot].hdr.SetIovlen(1)
}

func (t *transmitter) nameLen() int {
	if t.ip4 {
		return sockaddr4Len
	}
	return sockaddr6Len
}

// burst sends items and returns how many it took.
func (t *transmitter) burst(items []transport.TxItem) (int, unix.Errno) {
	if t.msgs == nil {
		t.prepare()
	}
	if len(items) == 1 { // the latency of a lone packet matters most
		return t.lonely(&items[0])
	}
	done := 0
	for done < len(items) {
		n := t.build(items[done:])
		if n == 0 { // the first item can never be sent
			t.dropped++
			done++
			continue
		}
		ok, err := t.flush(items[done : done+n])
		done += ok
		if err != 0 {
			return done, err
		}
		if ok < n {
			t.stalls++
			break
		}
	}
	return done, 0
}

// plain sends every item as a datagram of its own.
func (t *transmitter) plain(items []transport.TxItem) (int, unix.Errno) {
	for i := range items {
		switch v, err := t.sendOne(&items[i]); v {
		case stalled:
			t.stalls++
			return i, 0
		case broken:
			return i, err
		case refused, lost:
			t.dropped++
		}
	}
	return len(items), 0
}

// lonely sends the only packet of a burst. Nearly all of them take the shortest way.
func (t *transmitter) lonely(it *transport.TxItem) (int, unix.Errno) {
	name := &t.names[loneSlot]
	if t.sources == nil && len(it.Data) == 0 && len(it.Head) <= t.mtu && name.put(&it.Dst, t.ip4) {
		t.calls++
		err := sysSendto(t.fd, it.Head, name, t.nameLen())
		if err == 0 {
			t.packets++
			t.bytes += uint64(len(it.Head))
			return 1, 0
		}
		t.judge(err) // plain tries again
	}
	one := [1]transport.TxItem{*it}
	return t.plain(one[:])
}

// sendOne sends one datagram by the shortest way: sendto where the kernel chooses the source.
func (t *transmitter) sendOne(it *transport.TxItem) (verdict, unix.Errno) {
	p := it.Head
	size := len(it.Head) + len(it.Data)
	if size > t.mtu || !t.names[loneSlot].put(&it.Dst, t.ip4) {
		return refused, 0
	}
	if len(it.Data) > 0 {
		t.lone = append(append(t.lone[:0], it.Head...), it.Data...)
		p = t.lone
	}
	told := t.sources != nil && t.tell(loneSlot, &it.Dst, 1)
	for tries, untold := 0, false; ; {
		err := t.sendAlone(p, told)
		if err == 0 {
			if untold { // so the address to leave from was at fault: it has gone
				t.sources.forget(&it.Dst)
			}
			t.packets++
			t.bytes += uint64(size)
			return sent, 0
		}
		switch v, retry := t.judge(err); {
		case retry && tries < pendingTries:
			tries++
		case v == refused && told && err != unix.EMSGSIZE:
			told, untold, tries = false, true, 0
		default:
			return v, err
		}
	}
}

// sendAlone sends p to the name of loneSlot. told says that it leaves from the address that is in
// the slot's control message.
func (t *transmitter) sendAlone(p []byte, told bool) unix.Errno {
	t.calls++
	if !told {
		return sysSendto(t.fd, p, &t.names[loneSlot], t.nameLen())
	}
	if len(p) > 0 {
		t.loneVec.Base = &p[0]
	}
	t.loneVec.SetLen(len(p))
	err := sysSendmsg(t.fd, &t.msgs[loneSlot])
	t.loneVec.Base = nil // it must not keep the caller's memory alive
	return err
}

// tell has message i, a train of n packets to dst, leave from the address that dst asked. It
// reports whether that is known. The message's control messages are complete otherwise.
func (t *transmitter) tell(i int, dst *transport.Addr, n int) bool {
	m, segment, info := &t.msgs[i], t.control[i], t.pktinfo[i]
	src := t.sources.find(dst)
	switch {
	case src == nil && n == 1:
		m.point(segment[:0])
	case src == nil:
		m.point(segment)
	case n == 1:
		m.point(info)
	default:
		m.point(segment[:len(segment)+len(info)])
	}
	if src != nil {
		src.put(info[unix.CmsgLen(0):], t.ip4)
	}
	return src != nil
}

// judge says what an error means for the packet that met it, and whether to
// retry: the error may be about an earlier packet, and is gone once reported. Then the packet was
// not sent.
func (t *transmitter) judge(err unix.Errno) (v verdict, retry bool) {
	switch err {
	case unix.EAGAIN, unix.ENOMEM:
		return stalled, false
	case unix.ENOBUFS: // said only to sockets that ask for errors; others never hear of such a drop
		return lost, false
	case unix.EBADF, unix.ENOTSOCK:
		return broken, false
	case unix.EINVAL, unix.EIO:
		return refused, false
	}
	t.soft++
	t.errors.due = true
	return refused, true
}

// build turns as many items as fit into messages and returns how many. It stops
// at an item that can never be sent.
func (t *transmitter) build(items []transport.TxItem) int {
	if t.vectors == nil {
		t.vectors, t.stage = make([]unix.Iovec, txVectors), make([]byte, txFirst)
	}
	t.count, t.vecs, t.staged = 0, 0, 0
	i := 0
	for i < len(items) && t.count < txMessages {
		it := &items[i]
		size := len(it.Head) + len(it.Data)
		if size > t.mtu || !t.names[t.count].put(&it.Dst, t.ip4) {
			break
		}
		n, bytes := t.measure(items[i:], size)
		m := &t.msgs[t.count]
		if !t.fill(m, items[i:i+n], size, bytes) {
			break
		}
		m.hdr.SetControllen(0)
		if n > 1 {
			c := t.control[t.count]
			binary.NativeEndian.PutUint16(c[unix.CmsgLen(0):], uint16(size))
			m.hdr.SetControllen(len(c))
		}
		told := t.sources != nil && t.tell(t.count, &it.Dst, n)
		t.trains[t.count] = train{n, bytes, told}
		t.count++
		i += n
	}
	return i
}

// measure returns how many of items, the first of size bytes, can form a train,
// and their bytes: same destination and loop, same size but for a shorter last one.
// Whether a path carries packets of a size is found out with management packets, so the fate of
// each is its own: with shorter ones they form no train.
func (t *transmitter) measure(items []transport.TxItem, size int) (n, bytes int) {
	limit := 1
	if size > 0 {
		limit = min(len(items), t.segments, max(1, maxTrain/size))
	}
	dst, loop := &items[0].Dst, loopByte(&items[0])
	for n = 1; n < limit; n++ {
		it := &items[n]
		k := len(it.Head) + len(it.Data)
		if k != size || it.Dst != *dst || loopByte(it) != loop {
			if 0 < k && k < size && it.Dst == *dst && loopByte(it) == loop &&
				!manages(it) && !manages(&items[0]) {
				return n + 1, n*size + k
			}
			break
		}
	}
	return n, n * size
}

// typeMgmt is the type of a management packet, in the low bits of its first byte, as package wire
// has it.
const typeMgmt = 4

func manages(it *transport.TxItem) bool { return len(it.Head) > 0 && it.Head[0]&15 == typeMgmt }

// fill points m at the bytes of items, or at a copy of them. It reports whether
// there was room; there always is for the first message.
func (t *transmitter) fill(m *mmsghdr, items []transport.TxItem, size, bytes int) bool {
	if size > txCopyMax {
		return t.fillVectors(m, items)
	}
	if t.staged+bytes > len(t.stage) && len(t.stage) < txStage {
		t.stage, t.staged = make([]byte, txStage), 0 // the messages so far keep the old one
	}
	if t.staged+bytes > len(t.stage) || t.vecs == len(t.vectors) {
		return false
	}
	p := t.stage[t.staged : t.staged+bytes]
	t.staged += bytes
	v := &t.vectors[t.vecs]
	t.vecs++
	if bytes > 0 {
		v.Base = &p[0]
	}
	v.SetLen(bytes)
	m.hdr.Iov = v
	m.hdr.SetIovlen(1)
	for i := range items {
		it := &items[i]
		k := copy(p, it.Head)
		k += copy(p[k:], it.Data)
		p = p[k:]
	}
	return true
}

func (t *transmitter) fillVectors(m *mmsghdr, items []transport.TxItem) bool {
	if t.vecs+2*len(items) > len(t.vectors) {
		return false
	}
	first := t.vecs
	for i := range items {
		t.vector(items[i].Head)
		t.vector(items[i].Data)
	}
	m.hdr.Iov = &t.vectors[first]
	m.hdr.SetIovlen(t.vecs - first)
	return true
}

func (t *transmitter) vector(p []byte) {
	if len(p) == 0 {
		return
	}
	v := &t.vectors[t.vecs]
	v.Base = &p[0]
	v.SetLen(len(p))
	t.vecs++
}

// flush sends the messages built from items and returns how many items it took.
func (t *transmitter) flush(items []transport.TxItem) (int, unix.Errno) {
	done, tries := 0, 0
	var fatal unix.Errno
	for m := 0; m < t.count; {
		n, err := t.send(m)
		if err == 0 {
			for _, tr := range t.trains[m : m+n] {
				done += tr.items
				t.packets += uint64(tr.items)
				t.bytes += uint64(tr.bytes)
			}
			m += n
			tries = 0
			continue
		}
		v, retry := t.judge(err)
		if retry && tries < pendingTries {
			tries++
			continue
		}
		tries = 0
		k := t.trains[m].items
		if v == refused && (k > 1 || t.trains[m].told) {
			ok, err := t.untrain(items[done:done+k], t.trains[m].told, err)
			done += ok
			if err != 0 || ok < k {
				fatal = err
				break
			}
			m++
			continue
		}
		if v == lost {
			t.dropped += uint64(k)
			done += k
			m++
			continue
		}
		if v != refused {
			if v == broken {
				fatal = err
			}
			break
		}
		t.dropped++
		done++
		m++
	}
	// The vectors must not keep the caller's memory alive, or point to where it was.
	clear(t.vectors[:t.vecs])
	return done, fatal
}

// send offers the messages from m on to the kernel and returns how many it took.
func (t *transmitter) send(m int) (int, unix.Errno) {
	t.calls++
	if m+1 == t.count {
		return 1, sysSendmsg(t.fd, &t.msgs[m])
	}
	n, err := sysSendmmsg(t.fd, t.msgs[m:t.count])
	if n < t.count-m {
		t.errors.due = true // the call ends at the first error, and says none if it has sent something
	}
	return n, err
}

// untrain sends the packets of a message that the kernel refused one by one. If that works, and
// for no other reason than that, trains do not work, on this route at least, and are not tried
// again. The other reason: the address to leave from, which the message was told, has gone. An
// earlier message of the batch may have found that out.
func (t *transmitter) untrain(
	items []transport.TxItem, told bool, why unix.Errno,
) (int, unix.Errno) {
	before := t.packets
	n, err := t.plain(items)
	gone := told && t.sources.find(&items[0].Dst) == nil
	if t.packets > before && !gone && (why == unix.EIO || why == unix.EINVAL) {
		t.segments = 1
	}
	return n, err
}
