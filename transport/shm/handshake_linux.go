package shm

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/userspace-rpc/erpc/internal/shmem"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// dial makes a connection that we ask for: we make the memory.
func (h *hub) dial(l *link) {
	if err := h.tryDial(l); err != nil {
		var r *refusal
		if errors.As(err, &r) && r.why == whyTwice {
			h.expect(l, err)
			return
		}
		h.mu.Lock()
		ours := l.state == dialing
		h.mu.Unlock()
		if ours {
			h.fail(l, err)
		}
	}
}

// expect waits for the connection that the other side opened at the same time.
func (h *hub) expect(l *link, err error) {
	timer := time.NewTimer(handshakeTime)
	defer timer.Stop()
	select {
	case <-l.done:
	case <-h.stopped:
	case <-timer.C:
		h.fail(l, err)
	}
}

func (h *hub) tryDial(l *link) error {
	s, err := net.DialUnix("unixpacket", nil, h.dir.pathOf(l.addr))
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("%w: %v", ErrNoEndpoint, l.addr)
		}
		return fmt.Errorf("shm: %w", err)
	}
	defer h.guard(s)()
	h.mu.Lock()
	l.dial = s
	h.mu.Unlock()
	user, err := peerUser(s)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrHandshake, err)
	}
	if !h.isOf(l.addr, user) {
		return fmt.Errorf("%w: user %d has its socket", ErrHandshake, user)
	}
	file, mem, err := shmem.Create(shmem.PairSize(h.cfg.Ring))
	if err != nil {
		return err
	}
	defer unix.Close(file)
	p := &peer{addr: l.addr, fd: -1, pair: mem}
	hello := message{Kind: kindHello, From: h.c.local, To: l.addr, Ring: uint64(h.cfg.Ring),
		Limit: uint32(h.cfg.MTU), Flags: flags()}
	if err := sendMessage(s, hello, file, h.c.waiter.bellFD); err != nil {
		p.free()
		return fmt.Errorf("%w: %v", ErrHandshake, err)
	}
	m, fds, err := receiveMessage(s, kindWelcome, 1)
	if err != nil {
		p.free()
		return err
	}
	defer closeAll(fds)
	if m.From != l.addr || m.To != h.c.local || m.Limit > hello.Limit {
		err = fmt.Errorf("%w: wrong answer", ErrHandshake)
	} else {
		err = p.attach(s, h.cfg.Ring, 0, &m, fds[0])
	}
	if err == nil {
		err = h.established(l, dialing, p)
	}
	if err != nil {
		p.free()
	}
	return err
}

// acceptAll serves endpoints that connect to us.
func (h *hub) acceptAll() {
	for {
		s, err := h.listener.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Such as too many open files: give others time to close some.
			select {
			case <-h.stopped:
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		if !h.begins(s) {
			return
		}
	}
}

// begins begins the handshake of a connection. It waits for a place among those of this user and
// root, but never for other users, who have places of their own. False means that the hub stops.
func (h *hub) begins(s *net.UnixConn) bool {
	user, err := peerUser(s)
	switch {
	case err != nil:
		s.Close()
	case h.trusts(user):
		select {
		case h.slots <- struct{}{}:
		case <-h.stopped:
			s.Close()
			return false
		}
		h.running.Go(func() {
			h.accept(s, user, nil)
			<-h.slots
		})
	case !h.cfg.AllowOtherUsers:
		h.refuse(s, whyUser)
		s.Close()
	default:
		n := h.enter(user, s)
		if n == nil {
			h.refuse(s, whyLimit)
			s.Close()
			break
		}
		h.running.Go(func() {
			h.accept(s, user, n)
			h.leave(n)
		})
	}
	return true
}

// accept answers one endpoint that wants to connect. Without n it is one of this user or root.
func (h *hub) accept(s *net.UnixConn, user uint32, n *newcomer) {
	defer h.guard(s)()
	m, fds, err := receiveMessage(s, kindHello, 2)
	if err != nil {
		if lacksFiles(err) {
			h.refuse(s, whyFiles)
		}
		return
	}
	defer closeAll(fds)
	if n != nil && !h.heard(n) {
		return
	}
	if m.To != h.c.local || m.From == h.c.local || !isAddr(m.From) || m.Ring > shmem.MaxRing ||
		m.Limit > MaxMTU {
		h.refuse(s, whyBad)
		return
	}
	if !h.isOf(m.From, user) {
		h.refuse(s, whyUser)
		return
	}
	l, why := h.answer(&m)
	if l == nil {
		h.refuse(s, why)
		return
	}
	if err := h.welcome(s, l, &m, fds); err != nil {
		h.fail(l, err)
	}
}

// answer decides about a hello. When both sides ask at the same time, the question of
// the smaller address goes first.
func (h *hub) answer(m *message) (l *link, why uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, whyBad
	}
	if l = h.links[m.From]; l != nil && l.state == open && ended(l.peer.fd) {
		h.gone(l.peer) // it left and came back before we were told
		l = nil
	}
	if l == nil {
		l = &link{addr: m.From, state: accepting, done: make(chan struct{})}
		if h.admit(l, int(m.Ring)) != nil {
			return nil, whyLimit
		}
		return l, 0
	}
	if l.state != dialing || less(h.c.local, m.From) {
		return nil, whyTwice
	}
	// Their memory takes the place of ours.
	was := l.memory
	h.drop(l)
	h.charge(l.addr, 0, -was)
	if err := h.admit(l, int(m.Ring)); err != nil {
		l.memory, h.links[l.addr] = was, l
		h.charge(l.addr, 1, was)
		return nil, whyLimit
	}
	l.state = accepting
	if l.dial != nil {
		l.dial.Close()
	}
	return l, 0
}

// welcome checks what the other side sent, says yes and opens the link. The order
// matters: when the other side hears yes, its wake-ups must reach us.
func (h *hub) welcome(s *net.UnixConn, l *link, m *message, fds []int) error {
	p := &peer{addr: m.From, fd: -1}
	m.Limit = min(m.Limit, uint32(h.cfg.MTU))
	mem, err := shmem.Open(fds[0], shmem.PairSize(int(m.Ring)))
	if err == nil {
		p.pair = mem
		err = p.attach(s, int(m.Ring), 1, m, fds[1])
	}
	if err != nil {
		p.free()
		why := uint32(whyBad)
		if lacksFiles(err) {
			why = whyFiles
		}
		h.refuse(s, why)
		return err
	}
	if err = h.established(l, accepting, p); err != nil {
		p.free()
		return err
	}
	// If this fails the other side is gone, and the watch on its socket says so.
	_ = sendMessage(s, message{Kind: kindWelcome, From: h.c.local, To: m.From, Limit: m.Limit,
		Flags: flags()}, h.c.waiter.bellFD)
	return nil
}

// lacksFiles reports whether an error says that this process or the system has no descriptors left.
func lacksFiles(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

func (h *hub) refuse(s *net.UnixConn, why uint32) {
	_ = sendMessage(s, message{Kind: kindRefuse, Why: why, From: h.c.local})
}

// trusts reports whether a user is this one or root, which can do everything anyhow.
func (h *hub) trusts(user uint32) bool { return user == h.uid || user == 0 }

// isOf reports whether an address can be that of a process of a user. Among several users it is the
// user's own, which it names: nobody speaks in the name of an endpoint of somebody else.
func (h *hub) isOf(a transport.Addr, user uint32) bool {
	if h.cfg.AllowOtherUsers {
		return userOf(a) == user
	}
	return h.trusts(user)
}

// attach fills in p from what the other side sent. p.pair is mapped already.
func (p *peer) attach(s *net.UnixConn, ring, side int, m *message, bell int) error {
	tx, rx, err := shmem.Attach(p.pair, ring, int(m.Limit), side)
	if err != nil {
		return err
	}
	if p.bellMem, err = shmem.OpenBell(bell); err != nil {
		return err
	}
	if p.fd, err = duplicate(s); err != nil {
		p.fd = -1
		return err
	}
	tx.SetFence(!shmem.CanBarrier() || m.Flags&canBarrier == 0)
	p.tx, p.rx, p.bell, p.open = *tx, *rx, shmem.NewListener(p.bellMem), true
	return nil
}

// memory returns what the connection counts for in the limits.
func (p *peer) memory() int64 { return int64(len(p.pair)) + 2*shmem.BellSize }

// free ends a connection. Nobody uses its memory any more.
func (p *peer) free() {
	if p.fd >= 0 {
		unix.Close(p.fd)
	}
	p.fd = -1
	shmem.Unmap(p.pair)
	shmem.Unmap(p.bellMem)
	p.pair, p.bellMem = nil, nil
}

// ended reports whether the other end of a socket was closed.
func ended(fd int) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0 && poll[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}
