package udp

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/poll"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

const haveKernel = true

// pollWake is the bit of Wake's eventfd in FinishWait's argument. Bit 0, the socket's, needs
// nothing done.
const pollWake = 1

// kernelConn is the Linux implementation.
type kernelConn struct {
	fd     int    // the socket
	group  *group // nil for a socket alone
	ip4    bool
	closed atomic.Bool
	tx     transmitter
	rx     receiver
	errors errorQueue
	out    *outlets // nil without renewed peers, see renew
	cfg    Config
	fixed  bool // the port was asked for

	caps  transport.Caps
	local transport.Addr
	net   string // for resolve
	lacks []string

	sleeper poll.Sleeper
	stats   transport.Stats // Stats' copy of the drop counter outlives the socket
	freeMu  sync.Mutex      // Stats' use of the socket against Close
	freed   bool            // under freeMu
}

func listenKernel(l listenAddr, cfg Config) (implementation, error) {
	fd, ip4, err := openSocket(l, cfg)
	if err != nil {
		return nil, err
	}
	c, err := newKernel(fd, ip4, l, cfg)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// newKernel makes a kernelConn of a socket, which it owns from now on, also when it fails.
func newKernel(fd int, ip4 bool, l listenAddr, cfg Config) (*kernelConn, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("getsockname", err)
	}
	c := &kernelConn{fd: fd, ip4: ip4, local: addrOf(sa), cfg: cfg, fixed: l.ap.Port() != 0}
	c.cfg.ReusePort = false
	if err := refusedCall(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := c.sleeper.Init("udp", &c.closed); err != nil {
		unix.Close(fd)
		return nil, err
	}
	c.sleeper.Watch(fd, c.sleeper.WakeFD()) // see pollWake
	dual := !ip4 && c.local.AddrPort().Addr().IsUnspecified()
	c.net = networkOf(c.local.AddrPort().Addr(), dual)
	if ip4 {
		c.net = "udp4"
	}
	wildcard := l.wildcard()
	c.doWithout(&cfg, &wildcard)
	c.caps = transport.Caps{
		Name: "udp", MTU: cfg.MTU, TxCopies: true, TxBatch: txBatch, TxCostly: true, ECN: cfg.ECN,
		RxRing: ringSize(grantedBuffer(fd, unix.SO_RCVBUF), cfg.MTU),
	}
	segments := 1
	if !cfg.NoGSO {
		segments = maxSegments()
	}
	var known *sources
	if wildcard {
		known = newSources()
	}
	if !c.errors.init(fd, ip4) {
		c.lacks = append(c.lacks, "IP_RECVERR")
	}
	c.tx.init(fd, ip4, cfg.MTU, segments, known, &c.errors)
	c.rx.init(fd, cfg.MTU, !cfg.NoGRO, cfg.ECN, known, &c.errors)
	if !cfg.NoGRO && !grantsGRO() {
		c.lacks = append(c.lacks, "UDP_GRO")
	}
	if !cfg.NoGSO && segments == 1 {
		c.lacks = append(c.lacks, "UDP_SEGMENT")
	}
	return c, nil
}

// safeMTU is the largest packet in bytes that every path of IPv6 carries whole.
const safeMTU = 1232

// doWithout looks at which options the socket has not got, and changes what is done with it. What
// may be cut in pieces says nothing of the path's size, so packets fit every path then. Without the
// marks there is no ECN. Without the destinations of packets answers leave from the address that
// the kernel chooses.
func (c *kernelConn) doWithout(cfg *Config, wildcard *bool) {
	lacks := func(opts []option) bool {
		before := len(c.lacks)
		for _, o := range opts {
			if !o.isSet(c.fd) {
				c.lacks = append(c.lacks, o.name)
			}
		}
		return len(c.lacks) > before
	}
	if lacks(wholeOptions(c.ip4)) {
		cfg.MTU = min(cfg.MTU, safeMTU)
	}
	if cfg.ECN && lacks(ecnOptions(c.ip4)) {
		cfg.ECN = false
	}
	if *wildcard && lacks(pktinfoOptions(c.ip4)) {
		*wildcard = false
	}
}

// refusedCall returns an error if the system refuses this process a system call that kernelConn
// needs and package net does not. Sandboxes decide before they look at the descriptor: there is
// none.
func refusedCall() error {
	var m mmsghdr
	_, recvmmsg := sysRecvmmsg(-1, nil)
	_, sendmmsg := sysSendmmsg(-1, nil)
	_, ppoll := unix.Ppoll(nil, &unix.Timespec{}, nil)
	for _, c := range []struct {
		name string
		err  error
	}{
		{"recvmsg", sysRecvmsg(-1, &m)}, {"recvmmsg", recvmmsg}, {"sendmsg", sysSendmsg(-1, &m)},
		{"sendmmsg", sendmmsg}, {"ppoll", ppoll},
	} {
		if isRefusal(c.err) {
			return &refusedError{c.name, c.err}
		}
	}
	return nil
}

// isRefusal reports whether an error is one by which a sandbox refuses a call.
func isRefusal(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EACCES)
}

func (c *kernelConn) refused() []string { return c.lacks }

func (c *kernelConn) Caps() transport.Caps      { return c.caps }
func (c *kernelConn) LocalAddr() transport.Addr { return c.local }
func (c *kernelConn) Flush()                    {}

func (c *kernelConn) resolve(text string) ([]transport.Addr, error) {
	if c.closed.Load() {
		return nil, transport.ErrClosed
	}
	return peers(c.net, text, c.local.AddrPort().Addr())
}

func (c *kernelConn) TxBurst(items []transport.TxItem) (int, error) {
	if c.closed.Load() {
		return 0, transport.ErrClosed
	}
	if c.out != nil {
		n, err := c.txOutlets(items)
		return n, callError("send", err)
	}
	n, err := c.tx.burst(items)
	if c.errors.due {
		c.errors.read()
	}
	return n, callError("send", err)
}

func (c *kernelConn) RxBurst(pkts []transport.RxPacket) (int, error) {
	if c.closed.Load() {
		return 0, transport.ErrClosed
	}
	if c.out != nil {
		n, err := c.rxOutlets(pkts)
		return n, callError("recvmsg", err)
	}
	n, err := c.rx.burst(pkts)
	if c.errors.due {
		c.errors.read()
	}
	return n, callError("recvmsg", err)
}

// callError is the error of a system call, nil for 0.
func callError(call string, err unix.Errno) error {
	if err == 0 {
		return nil
	}
	return fmt.Errorf("udp: %w", os.NewSyscallError(call, err))
}

func (c *kernelConn) Wait(timeout time.Duration) error { return c.sleeper.Wait(c, timeout) }

func (c *kernelConn) Nap(timeout time.Duration) error { return c.sleeper.Nap(timeout) }

func (c *kernelConn) WaitFDs() []int { return c.sleeper.FDs() }

func (c *kernelConn) PrepareWait() (idle bool, err error) {
	if idle, err = c.sleeper.Prepare(); !idle {
		return false, err
	}
	// Packets that RxBurst read but did not have room to return are not in the
	// socket any more.
	if c.rx.pending() || c.out != nil && c.out.pending() {
		c.sleeper.Cancel()
		return false, nil
	}
	return true, nil
}

func (c *kernelConn) FinishWait(ready uint32) error {
	defer c.sleeper.Unlock()
	return c.sleeper.Finish(ready&(1<<pollWake) != 0)
}

func (c *kernelConn) Wake() { c.sleeper.Wake() }

func (c *kernelConn) Stats() transport.Stats {
	s := &c.stats
	t, r := &c.tx, &c.rx
	s.TxPackets, s.TxBytes, s.TxDropped = t.packets, t.bytes, t.dropped
	s.TxStalls, s.TxCalls = t.stalls, t.calls
	s.RxPackets, s.RxBytes, s.RxCalls = r.packets, r.bytes, r.calls
	c.freeMu.Lock()
	if !c.freed {
		r.readDrops()
	}
	defer c.freeMu.Unlock()
	s.RxDropped = r.dropped
	if c.out != nil {
		c.out.stats(s, c.freed)
	}
	return *s
}

func (c *kernelConn) softErrors() uint64 {
	soft := c.tx.soft + c.rx.soft
	if c.out != nil {
		soft += c.out.soft
		for _, o := range c.out.all {
			soft += o.rx.soft
		}
	}
	return soft
}

func (c *kernelConn) Hints(hints []transport.Hint) int {
	n := c.errors.hints.Drain(hints)
	if c.out != nil {
		n += c.out.drain(hints[n:])
	}
	return n
}

func (c *kernelConn) namespace() (uint64, bool) {
	c.freeMu.Lock()
	defer c.freeMu.Unlock()
	if c.freed {
		return 0, false
	}
	id, err := namespaceOf(c.fd)
	return id, err == nil
}

// namespaceOf returns the number of a socket's network namespace. Kernels before 5.14 do not tell.
func namespaceOf(fd int) (uint64, error) {
	return unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
}

func (c *kernelConn) opening(dst *transport.Addr, now monotime.Time) {
	if c.tx.sources != nil {
		c.tx.sources.opening(dst, now)
	}
}

func (c *kernelConn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.sleeper.Stop() // a blocked Wait has returned now
	c.sleeper.Free()
	c.freeMu.Lock()
	defer c.freeMu.Unlock()
	c.freed = true
	closes := unix.Close
	if c.group != nil {
		closes = c.group.close
	}
	err := c.freeOutlets()
	if e := closes(c.fd); e != nil {
		err = errors.Join(err, os.NewSyscallError("close", e))
	}
	return err
}

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
		if r.wanted {
			r.stampAll(false)
		}
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
