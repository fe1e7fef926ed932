package afxdp

import (
	"fmt"
	"os"

	"github.com/userspace-rpc/erpc/transport/rawudp"
	"golang.org/x/sys/unix"
)

// txFrames is the most frames of a Reserve.
const txFrames = 64

// device is an endpoint's sockets, one for each queue of the link, as a rawudp.Device.
type device struct {
	port  int // the kernel's UDP socket that reserves the port
	epoll int
	caps  rawudp.DeviceCaps
	local rawudp.Local
	cfg   Config

	*member
	armed bool    // the lanes are in epoll
	old   *member // its last frames are still lent
	next  int     // lane to receive from first
	out   *lane   // to send by

	event  unix.EpollEvent // for arm
	frames []rawudp.TxFrame
	stats  rawudp.DeviceStats
	past   rawudp.DeviceStats // of members before
	shut   bool
}

var (
	_ rawudp.Device  = (*device)(nil)
	_ rawudp.Heedful = (*device)(nil)
)

// open opens an endpoint on l. It sets local.Port if that is 0.
func open(l rawudp.Link, local *rawudp.Local, cfg Config) (d *device, err error) {
	d = &device{port: -1, epoll: -1, cfg: cfg, frames: make([]rawudp.TxFrame, txFrames)}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if d.port, err = reserve(local); err != nil {
		return d, err
	}
	d.local = *local
	if d.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return d, fmt.Errorf("afxdp: %w", os.NewSyscallError("epoll_create1", err))
	}
	m, err := join(l, d.local, cfg)
	if err != nil {
		return d, err
	}
	d.use(m)
	d.caps = rawudp.DeviceCaps{
		Name: "afxdp", FrameSize: frameSize, TrainSize: frameSize, RxRing: m.pools[0].ring, Segments: 1,
		TxCopies: true,
	}
	return d, nil
}

// use makes m the member that the device works with.
func (d *device) use(m *member) {
	// Several endpoints use several queues.
	d.member, d.next, d.out = m, 0, m.lanes[m.slot%len(m.lanes)]
}

// arm makes FD readable at the next event of the lanes, and reports whether it will be. The kernel
// does much work for each frame that comes in on an armed lane, so lanes are armed only while
// somebody is about to sleep. Frames that came in before count, too.
func (d *device) arm() bool {
	d.armed = true
	d.event.Events = unix.EPOLLIN
	for _, l := range d.lanes {
		err := unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, l.fd, &d.event)
		if err != nil {
			d.disarm()
			return false
		}
	}
	return true
}

// disarm has FD be quiet.
func (d *device) disarm() {
	d.armed = false
	for _, l := range d.lanes {
		_ = unix.EpollCtl(d.epoll, unix.EPOLL_CTL_DEL, l.fd, nil)
	}
}

// Caps implements rawudp.Device.
func (d *device) Caps() rawudp.DeviceCaps { return d.caps }

// SocketFD is the kernel's UDP socket that reserves the port, see rawudp.Heedful.
func (d *device) SocketFD() int { return d.port }

// FD implements rawudp.Device.
func (d *device) FD() int { return d.epoll }

// Flush does nothing: every packet was copied into the memory that the kernel reads.
func (d *device) Flush() {}

// Fault reads and clears the sockets' error. That a link goes away leaves one.
func (d *device) Fault() (err error) {
	for _, l := range d.lanes {
		code, e := unix.GetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if e == nil && code == int(unix.ENETDOWN) {
			err = rawudp.ErrLinkGone
		}
	}
	return err
}

// Attach moves the endpoint to another link. On the same one the sockets stay
// bound while it is down.
func (d *device) Attach(l rawudp.Link) error {
	if l.Index == d.index && d.bound() {
		return nil
	}
	m, err := join(l, d.local, d.cfg)
	if err != nil {
		return err
	}
	before := d.member
	d.disarm()
	d.use(m)
	d.past = d.count(before)
	d.forget()
	d.old = before
	return nil
}

// forget ends the member before.
func (d *device) forget() {
	if d.old != nil {
		d.old.close()
		d.old = nil
	}
}

// Pending implements rawudp.Device. Where FD cannot announce frames, it says that there are
// some, so that nobody sleeps in vain.
func (d *device) Pending() bool {
	for _, l := range d.lanes {
		if l.pending() {
			return true
		}
	}
	return !d.armed && !d.arm()
}

// Receive implements rawudp.Device.
func (d *device) Receive(frames []rawudp.RxFrame) (n int, err error) {
	d.stats.RxCalls++
	if d.armed {
		d.disarm()
	}
	if d.old != nil {
		d.forget()
	}
	if len(d.lanes) == 1 { // most often
		l := d.lanes[0]
		l.release()
		n = l.receive(frames, d.partial)
	} else {
		for range d.lanes {
			l := d.lanes[d.next]
			l.release()
			n += l.receive(frames[n:], d.partial)
			if d.next++; d.next == len(d.lanes) {
				d.next = 0
			}
		}
		if d.next++; d.next >= len(d.lanes) { // another one is first next time
			d.next = 0
		}
	}
	if n == 0 {
		err = d.idle()
	}
	return n, err
}

// idle wakes up a driver that sleeps, and sends what the kernel had no room for.
func (d *device) idle() error {
	for _, l := range d.lanes {
		if l.pool.fill.wantsKick() {
			kickRx(l.fd)
		}
	}
	if d.out.unsent {
		return d.out.flush()
	}
	return nil
}

// Reserve implements rawudp.Device.
func (d *device) Reserve(n int) []rawudp.TxFrame {
	return d.frames[:d.out.reserve(d.frames[:min(n, txFrames)])]
}

// Send implements rawudp.Device.
func (d *device) Send(n int) (int, error) { return d.out.send(d.frames[:n]) }

// count returns the counters of m and of those before it.
func (d *device) count(m *member) rawudp.DeviceStats {
	s := d.past
	for _, l := range m.lanes {
		s.TxCalls += l.calls
		s.RxDropped += l.dropped()
	}
	return s
}

// Stats implements rawudp.Device.
func (d *device) Stats() rawudp.DeviceStats {
	if !d.shut {
		s := d.count(d.member)
		d.stats.TxCalls, d.stats.RxDropped = s.TxCalls, s.RxDropped
	}
	return d.stats
}

// Close frees everything.
func (d *device) Close() error {
	if d.member != nil {
		d.Stats()
		d.forget()
		d.member.close()
	}
	d.shut = true
	if d.epoll >= 0 {
		unix.Close(d.epoll)
	}
	// Last, so that no late frame meets a closed port.
	if d.port >= 0 {
		unix.Close(d.port)
	}
	return nil
}
