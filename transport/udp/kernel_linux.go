package udp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

const haveKernel = true

// States of kernelConn.wake. Wait and Wake both swap, so no wake-up is lost.
const (
	awake  = iota // nobody waits, nobody called Wake
	waking        // Wake was called and Wait has not returned since
	asleep        // Wait is in ppoll or about to be
)

// kernelConn is the Linux implementation.
type kernelConn struct {
	fd     int // the socket
	ip4    bool
	closed atomic.Bool
	tx     transmitter
	rx     receiver

	caps  transport.Caps
	local transport.Addr
	net   string // for resolve

	wake   atomic.Uint32
	wakeFD int        // eventfd
	fdMu   sync.Mutex // Wake's use of wakeFD against Close
	waitMu sync.Mutex // held during Wait; Close waits for it
	poll   [2]unix.PollFd
	stats  transport.Stats // Stats' copy of the drop counter outlives the socket
	freed  bool            // under waitMu
}

func listenKernel(l listenAddr, cfg Config) (implementation, error) {
	fd, ip4, err := openSocket(l, cfg)
	if err != nil {
		return nil, err
	}
	wakeFD, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("eventfd", err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		unix.Close(fd)
		unix.Close(wakeFD)
		return nil, os.NewSyscallError("getsockname", err)
	}
	c := &kernelConn{fd: fd, ip4: ip4, wakeFD: wakeFD, local: addrOf(sa)}
	dual := !ip4 && c.local.AddrPort().Addr().IsUnspecified()
	c.net = networkOf(c.local.AddrPort().Addr(), dual)
	if ip4 {
		c.net = "udp4"
	}
	c.caps = transport.Caps{
		Name: "udp", MTU: cfg.MTU, TxCopies: true, TxBatch: txBatch, TxDear: true, ECN: cfg.ECN,
		RxRing: ringSize(grantedBuffer(fd, unix.SO_RCVBUF), cfg.MTU),
	}
	c.poll = [2]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wakeFD), Events: unix.POLLIN}}
	segments := 1
	if !cfg.NoGSO {
		segments = maxSegments()
	}
	c.tx.init(fd, ip4, cfg.MTU, segments)
	c.rx.init(fd, cfg.MTU, !cfg.NoGRO && enableGRO(fd), cfg.ECN)
	return c, nil
}

func (c *kernelConn) Caps() transport.Caps      { return c.caps }
func (c *kernelConn) LocalAddr() transport.Addr { return c.local }
func (c *kernelConn) Flush()                    {}

func (c *kernelConn) Resolve(text string) (transport.Addr, error) {
	if c.closed.Load() {
		return transport.Addr{}, transport.ErrClosed
	}
	return resolvePeer(c.net, text)
}

func (c *kernelConn) TxBurst(items []transport.TxItem) (int, error) {
	if c.closed.Load() {
		return 0, transport.ErrClosed
	}
	n, err := c.tx.burst(items)
	if err != 0 {
		return n, fmt.Errorf("udp: %w", os.NewSyscallError("send", err))
	}
	return n, nil
}

func (c *kernelConn) RxBurst(pkts []transport.RxPacket) (int, error) {
	if c.closed.Load() {
		return 0, transport.ErrClosed
	}
	n, err := c.rx.burst(pkts)
	if err != 0 {
		return n, fmt.Errorf("udp: %w", os.NewSyscallError("recvmsg", err))
	}
	return n, nil
}

func (c *kernelConn) Wait(timeout time.Duration) error {
	idle, err := c.prepareWait()
	if err != nil {
		return err
	}
	var ready uint32
	if idle {
		ready, err = c.sleep(timeout)
	}
	return errors.Join(err, c.finishWait(ready))
}

// waitFDs returns what sleep polls. The eventfd is number 1.
func (c *kernelConn) waitFDs() []int { return []int{c.fd, c.wakeFD} }

func (c *kernelConn) prepareWait() (idle bool, err error) {
	c.waitMu.Lock()
	if c.closed.Load() {
		c.waitMu.Unlock()
		return false, transport.ErrClosed
	}
	// Packets that RxBurst read but did not have room to return are not in the
	// socket any more.
	if !c.wake.CompareAndSwap(awake, asleep) || c.rx.pending() {
		c.wake.Store(awake)
		return false, nil
	}
	return true, nil
}

func (c *kernelConn) finishWait(ready uint32) error {
	defer c.waitMu.Unlock()
	if ready&2 != 0 {
		var count [8]byte
		_, _ = unix.Read(c.wakeFD, count[:])
	}
	c.wake.Swap(awake)
	if c.closed.Load() {
		return transport.ErrClosed
	}
	return nil
}

// sleep blocks in ppoll until the socket or the eventfd has something. The
// system call goes through the scheduler, so that other goroutines can use the
// processor meanwhile.
func (c *kernelConn) sleep(timeout time.Duration) (ready uint32, err error) {
	var limit *unix.Timespec
	if timeout >= 0 {
		ts := unix.NsecToTimespec(int64(timeout))
		limit = &ts
	}
	n, err := unix.Ppoll(c.poll[:], limit, nil)
	if err == unix.EINTR { // such as the scheduler's preemption signal
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("udp: %w", os.NewSyscallError("ppoll", err))
	}
	if n > 0 && c.poll[1].Revents != 0 {
		ready = 2
	}
	return ready, nil
}

func (c *kernelConn) Wake() {
	// The load keeps a second call cheap and its cache line shared.
	if c.wake.Load() == waking || c.wake.Swap(waking) != asleep {
		return
	}
	c.fdMu.Lock()
	defer c.fdMu.Unlock()
	c.ring()
}

// ring makes ppoll return. The caller holds fdMu.
func (c *kernelConn) ring() {
	if c.wakeFD < 0 {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(c.wakeFD, one[:]) // EAGAIN: it is readable already
}

func (c *kernelConn) Stats() transport.Stats {
	s := &c.stats
	t, r := &c.tx, &c.rx
	s.TxPackets, s.TxBytes, s.TxDropped = t.packets, t.bytes, t.dropped
	s.TxStalls, s.TxCalls = t.stalls, t.calls
	s.RxPackets, s.RxBytes, s.RxCalls = r.packets, r.bytes, r.calls
	c.waitMu.Lock()
	if !c.freed {
		r.readDrops()
	}
	c.waitMu.Unlock()
	s.RxDropped = r.dropped
	return *s
}

func (c *kernelConn) softErrors() uint64 { return c.tx.soft + c.rx.soft }

func (c *kernelConn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.fdMu.Lock()
	c.ring()
	c.fdMu.Unlock()
	c.waitMu.Lock() // a blocked Wait has returned now
	defer c.waitMu.Unlock()
	c.fdMu.Lock()
	defer c.fdMu.Unlock()
	c.freed = true
	unix.Close(c.wakeFD)
	c.wakeFD = -1
	if err := unix.Close(c.fd); err != nil {
		return os.NewSyscallError("close", err)
	}
	return nil
}
