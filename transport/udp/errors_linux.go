package udp

import (
	"errors"

	"github.com/userspace-rpc/erpc/internal/recverr"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// errorsOnce is how many errors one call of errorQueue.read takes from the kernel at most.
const errorsOnce = 64

// errorQueue takes from the kernel what the network said about packets sent earlier (IP_RECVERR of
// ip(7)). The kernel announces each by an error of some later call on the socket, which has nothing
// to do with that call and does not do what it was asked. It keeps the message until it is read, as
// a part of the receive buffer, and ends each wait meanwhile.
type errorQueue struct {
	fd  int
	ip4 bool
	due bool // a call failed: there may be something in the queue

	hints recverr.Ring

	msg     mmsghdr
	from    sockaddr
	iov     unix.Iovec
	control [256]byte
	quoted  [transport.QuotedMax]byte
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
	if q.msg.hdr.Namelen == 0 {
		return
	}
	var h transport.Hint
	e, ok := extendedError(q.control[:min(int(q.msg.hdr.Controllen), len(q.control))])
	q.from.get(&h.To)
	if ok && setHint(&h, &e) {
		q.hints.Add(h, q.quoted[:min(int(q.msg.len), len(q.quoted))])
	}
}

// setHint sets what the kernel's error says in h, whose address is set. It reports false for an
// error that is no hint.
func setHint(h *transport.Hint, e *unix.SockExtendedErr) bool {
	switch {
	case e.Errno == uint32(unix.EMSGSIZE):
		h.Kind, h.MTU = transport.HintTooBig, 0
		if e.Info != 0 {
			h.MTU = max(0, payload(int(min(e.Info, maxDatagram)), h.To.AddrPort().Addr()))
		}
	case recverr.PortUnreachable(e):
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
		if e, ok = recverr.Parse(h.Level, h.Type, b[data:int(h.Len)]); ok {
			return e, true
		}
		b = b[next:]
	}
}
