package udp

import (
	"encoding/binary"
	"errors"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

const (
	maxHints   = 64 // hints that wait for Hints; more are dropped
	errorsOnce = 64 // most errors that one call of errorQueue.read takes from the kernel
)

// errorQueue takes from the kernel what the network said about packets sent earlier (IP_RECVERR of
// ip(7)). The kernel announces each by an error of some later call on the socket, which has nothing
// to do with that call and does not do what it was asked. It keeps the message until it is read, as
// a part of the receive buffer, and ends each wait meanwhile.
type errorQueue struct {
	fd  int
	ip4 bool
	due bool // a call failed: there may be something in the queue

	hints *[maxHints]storedHint // nil before the first one
	head  int                   // the first one
	count int                   // of those from head on
	lent  int                   // of those: what Hints has returned

	msg     mmsghdr
	from    sockaddr
	iov     unix.Iovec
	control [256]byte
	quoted  [transport.QuotedMax]byte
}

// storedHint is a Hint with its bytes.
type storedHint struct {
	hint transport.Hint
	size int
	mem  [transport.QuotedMax]byte
}

// init asks the kernel for errors, and reports whether it agrees. One that knows none keeps them
// for itself.
func (q *errorQueue) init(fd int, ip4 bool) bool {
	q.fd, q.ip4 = fd, ip4
	err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_RECVERR, 1)
	if !ip4 {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_RECVERR, 1))
	}
	q.msg.put(&q.from, q.control[:])
	q.iov.Base = &q.quoted[0]
	q.msg.hdr.Iov = &q.iov
	q.msg.hdr.SetIovlen(1)
	return err == nil
}

// read takes what is in the queue, if a call has failed since it was empty. Errors
// beyond errorsOnce are for the next time.
func (q *errorQueue) read() {
	for range errorsOnce {
		q.msg.hdr.Namelen = uint32(len(q.from))
		q.msg.hdr.SetControllen(len(q.control))
		q.iov.SetLen(len(q.quoted))
		switch err := sysRecverr(q.fd, &q.msg); err {
		case 0:
			q.take()
		case unix.EINTR:
		default: // it is empty, or the socket has no such queue
			q.due = false
			return
		}
	}
}

// take turns the message that was read into a hint, if it is one.
func (q *errorQueue) take() {
	if q.count == maxHints || q.msg.hdr.Namelen == 0 {
		return
	}
	if q.hints == nil {
		q.hints = new([maxHints]storedHint)
	}
	h := &q.hints[(q.head+q.count)%maxHints]
	e, ok := extendedError(q.control[:min(int(q.msg.hdr.Controllen), len(q.control))])
	q.from.get(&h.hint.To)
	if !ok || !setHint(&h.hint, &e) {
		return
	}
	h.size = copy(h.mem[:], q.quoted[:min(int(q.msg.len), len(q.quoted))])
	q.count++
}

// setHint sets what the kernel's error says in h, whose address is set. It reports false for an
// error that is no hint.
func setHint(h *transport.Hint, e *unix.SockExtendedErr) bool {
	const (
		unreachable4, port4 = 3, 3 // RFC 792
		unreachable6, port6 = 1, 4 // RFC 4443, section 3.1
	)
	what := [3]uint8{e.Origin, e.Type, e.Code}
	switch {
	case e.Errno == uint32(unix.EMSGSIZE):
		h.Kind, h.MTU = transport.HintTooBig, 0
		if e.Info != 0 {
			h.MTU = max(0, payload(int(min(e.Info, maxDatagram)), h.To.AddrPort().Addr()))
		}
	case what == [3]uint8{unix.SO_EE_ORIGIN_ICMP, unreachable4, port4},
		what == [3]uint8{unix.SO_EE_ORIGIN_ICMP6, unreachable6, port6}:
		h.Kind, h.MTU = transport.HintUnreachable, 0
	default:
		return false
	}
	return true
}

// extendedError reads the error from the control messages in b.
func extendedError(b []byte) (e unix.SockExtendedErr, ok bool) {
	for {
		h, data, next, ok := controlHeader(b)
		if !ok {
			return e, false
		}
		body := b[data:int(h.Len)]
		if (h.Level == unix.SOL_IP && h.Type == unix.IP_RECVERR ||
			h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_RECVERR) && len(body) >= 16 {
			e.Errno = binary.NativeEndian.Uint32(body)
			e.Origin, e.Type, e.Code = body[4], body[5], body[6]
			e.Info = binary.NativeEndian.Uint32(body[8:])
			return e, true
		}
		b = b[next:]
	}
}

// drain returns up to len(hints) hints that were not returned yet. Those of the call before give
// their memory back.
func (q *errorQueue) drain(hints []transport.Hint) int {
	q.head = (q.head + q.lent) % maxHints
	q.count -= q.lent
	q.lent = min(len(hints), q.count)
	for i := range q.lent {
		h := &q.hints[(q.head+i)%maxHints]
		hints[i] = h.hint
		hints[i].Quoted = h.mem[:h.size:h.size]
	}
	return q.lent
}
