package rawudp

import (
	"net/netip"

	"github.com/userspace-rpc/erpc/internal/recverr"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// Heedful is a Device with a kernel UDP socket at the endpoint's address and port. The kernel takes
// ICMP errors that quote the endpoint's packets for that socket's, so it hears what the network
// says.
type Heedful interface {
	// SocketFD is that socket, which stays open until Close.
	SocketFD() int
}

// errorsOnce is how many errors one call of errorQueue.read takes from the kernel at most.
const errorsOnce = 64

// errorQueue takes from the kernel what the network said about packets sent earlier (IP_RECVERR of
// ip(7)).
type errorQueue struct {
	fd    int // -1: the device hears nothing
	poll  [1]unix.PollFd
	scope uint32

	hints recverr.Ring

	control [256]byte
	quoted  [transport.QuotedMax]byte
}

// init asks the kernel for errors. One that knows none keeps them for itself.
func (q *errorQueue) init(dev Device, local Local) {
	q.fd, q.scope = -1, local.Scope
	h, ok := dev.(Heedful)
	if !ok {
		return
	}
	q.fd = h.SocketFD()
	q.poll[0].Fd = int32(q.fd)
	if local.IP.Is6() {
		_ = unix.SetsockoptInt(q.fd, unix.SOL_IPV6, unix.IPV6_RECVERR, 1)
	} else {
		_ = unix.SetsockoptInt(q.fd, unix.SOL_IP, unix.IP_RECVERR, 1)
	}
}

// read takes what is in the queue. Errors beyond errorsOnce are for the next time. It allocates
// only if there is something.
func (q *errorQueue) read() {
	if q.fd < 0 {
		return
	}
	for range errorsOnce {
		if n, err := unix.Poll(q.poll[:], 0); n != 1 || err != nil ||
			q.poll[0].Revents&unix.POLLERR == 0 {
			return
		}
		n, control, _, from, err := unix.Recvmsg(q.fd, q.quoted[:], q.control[:],
			unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		q.take(q.quoted[:n], q.control[:control], from)
	}
}

// take turns the message that was read into a hint, if it says that nobody listens at a port.
func (q *errorQueue) take(quoted, control []byte, from unix.Sockaddr) {
	if !unreachable(control) {
		return
	}
	var to netip.AddrPort
	scope := uint32(0)
	switch a := from.(type) {
	case *unix.SockaddrInet4:
		to = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		to = netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
		if to.Addr().IsLinkLocalUnicast() {
			scope = q.scope
		}
	default:
		return
	}
	q.hints.Add(transport.Hint{
		Kind: transport.HintUnreachable, To: transport.AddrFrom(to, scope),
	}, quoted)
}

// unreachable reports whether control messages have the error "port unreachable".
func unreachable(control []byte) bool {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return false
	}
	for _, m := range list {
		if e, ok := recverr.Parse(m.Header.Level, m.Header.Type, m.Data); ok {
			return e.Errno != 0 && recverr.PortUnreachable(&e)
		}
	}
	return false
}

// Hints returns what the network has said, see transport.Transport: that nobody listens at a port,
// if the device is Heedful.
func (c *Conn) Hints(hints []transport.Hint) int { return c.errors.hints.Drain(hints) }
