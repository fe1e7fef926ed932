package udp

import (
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// A receiver that expects trains reads with recvmsg, since only its control messages
// say where one packet ends and the next begins. That costs a lone packet 0.2 us on
// each side, of 6 (two structures to copy in and out of the kernel, also each time
// there is nothing). So where packets come alone for a while, the receiver tells the kernel to
// keep no trains together, and reads with recvfrom. A few packets in a row
// without an idle poll in between bring the trains back. A socket on all addresses never does this:
// it needs the control message with the destination.

// rxMode is how a receiver reads.
type rxMode uint8

const (
	rxTrains   rxMode = iota // recvmsg and recvmmsg; trains stay together
	rxSettling               // trains are off, but one may be on its way into the queue
	rxLone                   // recvfrom
)

const (
	loneAfter = 256 // reads of one packet each before trains are given up
	settle    = 3   // polls of an empty queue until no train can be under way
	denseFrom = 4   // packets in a row that bring the trains back
)

// note counts a read that found n packets in one message or more.
func (r *receiver) note(n int) {
	if n != 1 || r.got != 1 {
		r.singles = 0
		return
	}
	if r.singles++; r.singles >= loneAfter && r.mayLone {
		r.singles = 0
		if r.setTrains(false) {
			r.mode, r.polls = rxSettling, 0
		}
	}
}

func (r *receiver) setTrains(on bool) bool {
	value := 0
	if on {
		value = 1
	}
	return unix.SetsockoptInt(r.fd, unix.SOL_UDP, unix.UDP_GRO, value) == nil
}

// trains goes back to reading trains. The queue may hold some, of before.
func (r *receiver) trains() {
	if r.setTrains(true) {
		r.mode, r.singles = rxTrains, 0
	}
}

// settled reports whether the queue has been empty for long enough since trains were
// switched off. A train that was on its way then is still known as one after they are
// switched on again.
func (r *receiver) settled() bool {
	r.calls++
	if used, ok := sysQueued(r.fd); !ok || used != 0 {
		r.trains()
		return false
	}
	if r.polls++; r.polls == settle {
		r.mode, r.dense = rxLone, 0
	}
	return true
}

// burstLone receives one packet.
func (r *receiver) burstLone(pkts []transport.RxPacket) (int, unix.Errno) {
	x := &r.meta[0]
	n, err := sysRecvfrom(r.fd, r.mem[:r.size], &x.from)
	for tries := 0; err != 0; tries++ {
		r.dense = 0
		switch err {
		case unix.EAGAIN:
			r.calls++
			return 0, 0
		case unix.EBADF, unix.ENOTSOCK:
			return 0, err
		}
		if r.earlier(); tries == pendingTries {
			return 0, 0
		}
		n, err = sysRecvfrom(r.fd, r.mem[:r.size], &x.from)
	}
	r.calls++
	if r.dense++; r.dense == denseFrom {
		r.trains()
	}
	if n > r.mtu {
		r.dropped++
		return 0, 0
	}
	p := &pkts[0]
	x.from.get(&p.From)
	p.Data, p.CE, p.Shared = r.mem[:n:n], false, false
	r.packets++
	r.bytes += uint64(n)
	return 1, 0
}
